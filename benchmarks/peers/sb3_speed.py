"""Measures the environment steps per second of PPO in Stable-Baselines3 or SBX, its JAX version, updates included.

usage: sb3_speed.py SETTINGS        one JSON object; `library` in it is stable_baselines3 or sbx
Uses DummyVecEnv, the default of both libraries.
"""

import time
from importlib import import_module

from measurement import read_settings, report
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

PACKAGES = {
    "stable_baselines3": ["stable-baselines3", "torch", "gymnasium"],
    "sbx": ["sbx-rl", "stable-baselines3", "jax", "gymnasium"],
}


class Clock(BaseCallback):
    """Records when each rollout starts and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []
        self.collected: list[float] = []

    def _on_rollout_start(self) -> None:
        self.begun.append(time.perf_counter())

    def _on_rollout_end(self) -> None:
        self.collected.append(time.perf_counter())

    def _on_step(self) -> bool:
        return True


settings = read_settings()
batch_size = settings.num_envs * settings.horizon
environments = VecNormalize(make_vec_env(settings.env_id, settings.num_envs, seed=0), gamma=settings.discount)
model = import_module(settings.library).PPO(
    "MlpPolicy",
    environments,
    n_steps=settings.horizon,
    batch_size=settings.minibatch_size,
    n_epochs=settings.num_epochs,
    learning_rate=settings.learning_rate,
    gamma=settings.discount,
    gae_lambda=settings.gae_lambda,
    clip_range=settings.clip_range,
    clip_range_vf=settings.clip_range,
    ent_coef=0.0,
    vf_coef=settings.value_cost,
    max_grad_norm=settings.max_gradient_norm,
    policy_kwargs={"net_arch": {"pi": settings.hidden_sizes, "vf": settings.hidden_sizes}},  # tanh is the default
    seed=0,
    device="cpu",
)
clock = Clock()
model.learn((settings.warmup + settings.iterations) * batch_size, callback=clock)
seconds = time.perf_counter() - clock.begun[settings.warmup]
collecting = sum(clock.collected[settings.warmup :]) - sum(clock.begun[settings.warmup :])
report(
    settings,
    PACKAGES[settings.library],
    steps_per_second=settings.iterations * batch_size / seconds,
    seconds=seconds,
    update_share=1 - collecting / seconds,
)
