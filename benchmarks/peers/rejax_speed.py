"""Measures the environment steps per second of rejax's PPO, with environment and updates in one compiled call.

usage: rejax_speed.py SETTINGS        one JSON object; gymnax environments only
Only training iterations are timed, without the 128 evaluation episodes of rejax's `train`. Several seeds run under
vmap, as in rejax's documentation; the steps of all seeds count.
"""

import time

import jax
from measurement import read_settings, report
from rejax import get_algo

settings = read_settings()
batch_size = settings.num_envs * settings.horizon
algorithm = get_algo("ppo").create(
    env=settings.env_id,
    num_envs=settings.num_envs,
    num_steps=settings.horizon,
    num_epochs=settings.num_epochs,
    num_minibatches=batch_size // settings.minibatch_size,
    learning_rate=settings.learning_rate,
    gamma=settings.discount,
    gae_lambda=settings.gae_lambda,
    clip_eps=settings.clip_range,
    ent_coef=0.0,
    vf_coef=settings.value_cost,
    max_grad_norm=settings.max_gradient_norm,
    normalize_observations=True,
    normalize_rewards=True,
    agent_kwargs={"activation": "tanh", "hidden_layer_sizes": settings.hidden_sizes},
)
if settings.num_seeds == 1:
    state = algorithm.init_state(jax.random.key(0))
    iterate = jax.jit(algorithm.train_iteration)
else:
    state = jax.vmap(algorithm.init_state)(jax.random.split(jax.random.key(0), settings.num_seeds))
    iterate = jax.jit(jax.vmap(algorithm.train_iteration))
for _ in range(settings.warmup):
    state = jax.block_until_ready(iterate(state))
began = time.perf_counter()
for _ in range(settings.iterations):
    state = jax.block_until_ready(iterate(state))
seconds = time.perf_counter() - began
report(
    settings,
    ["rejax", "gymnax", "jax"],
    steps_per_second=settings.num_seeds * settings.iterations * batch_size / seconds,
    seconds=seconds,
)
