"""Measures the environment steps per second of our PPO or MCPO over all seeds, updates and logging included.

usage: trustax_speed.py SETTINGS        one JSON object; `memory_size` in it is null for PPO
"""

from measurement import read_settings, report

import trustax as tx

settings = read_settings()
batch_size = settings.num_envs * settings.horizon
shared = {
    "learning_rate": settings.learning_rate,
    "learning_rate_schedule": "constant",
    "num_epochs": settings.num_epochs,
    "num_minibatches": batch_size // settings.minibatch_size,
    "discount": settings.discount,
    "gae_lambda": settings.gae_lambda,
    "value_cost": settings.value_cost,
    "value_clip_range": settings.clip_range,
    "max_gradient_norm": settings.max_gradient_norm,
    "hidden_sizes": tuple(settings.hidden_sizes),
}
if settings.memory_size is None:
    algorithm = tx.PPO(clip_range=settings.clip_range, **shared)
else:
    algorithm = tx.MCPO(memory_size=settings.memory_size, **shared)
records = tx.train(
    algorithm,
    settings.env_id,
    total_timesteps=(settings.warmup + settings.iterations) * batch_size,
    num_seeds=settings.num_seeds,
    num_envs=settings.num_envs,
    horizon=settings.horizon,
    quiet=True,
).records
timed = records[settings.warmup :]
seconds = records[-1]["time/time_elapsed"] - records[settings.warmup - 1]["time/time_elapsed"]
report(
    settings,
    ["trustax", "jax", *(["envpool"] if settings.env_id.startswith("envpool:") else [])],
    steps_per_second=settings.num_seeds * settings.iterations * batch_size / seconds,
    seconds=seconds,
    update_share=sum(record["time/update_share"] for record in timed) / len(timed),
)
