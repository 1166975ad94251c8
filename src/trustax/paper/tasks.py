"""The tasks of the paper with their settings, found by name or by environment id.

>>> task("hopper").env_id
'Hopper-v5'
>>> task_of("envpool:Hopper-v4").num_envs
16
>>> task_of("CartPole-v1") is None
True
"""

import dataclasses
import re
from dataclasses import dataclass, replace
from typing import Any

from trustax.algorithms import Algorithm
from trustax.algorithms.first_order import FirstOrder
from trustax.envs.atari import is_atari
from trustax.envs.engines import bare_id
from trustax.errors import TrustaxError, similar_or_all
from trustax.run import Run


@dataclass(frozen=True, kw_only=True)
class Task:
    """An environment with its training length and hyperparameters: one row of the paper's table of settings.

    The treatment of time limits is not part of a task, but of an experiment's protocol (`Run.bootstrap_truncation`).
    """

    env_id: str
    total_timesteps: int = 1_000_000
    num_envs: int = 4
    horizon: int = 2048
    num_epochs: int = 10
    num_minibatches: int = 64
    learning_rate: float = 3e-4
    value_cost: float = 0.5
    entropy_cost: float = 0.0
    normalize_rewards: bool = True

    def run(self, algorithm: Algorithm, **settings: Any) -> Run:
        """The run of an algorithm on this task; `settings` override fields of `Run`."""
        names = ("env_id", "total_timesteps", "num_envs", "horizon", "normalize_rewards")
        own = {name: getattr(self, name) for name in names}
        return Run(algorithm=self.tuned(algorithm), **own | settings)

    def tuned(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm with the task's settings. TRPO and ACKTR keep their own step sizes and costs."""
        names = ["num_minibatches"]
        if isinstance(algorithm, FirstOrder):
            names += ["num_epochs", "learning_rate", "value_cost", "entropy_cost"]
        known = {field.name for field in dataclasses.fields(algorithm)}  # type: ignore[arg-type]
        return replace(algorithm, **{name: getattr(self, name) for name in names if name in known})  # type: ignore[type-var]

    def summary(self, algorithm: Algorithm) -> str:
        """One line with the settings that the task gives to a run of the algorithm."""
        summary = f"{self.num_envs} environments × {self.horizon} steps per iteration"
        if isinstance(algorithm, FirstOrder):
            summary += f", {self.num_epochs} epochs of {self.num_minibatches} minibatches"
            summary += f", learning rate {self.learning_rate:g}, c₁ {self.value_cost:g}, c₂ {self.entropy_cost:g}"
        return summary


def _mujoco(name: str) -> Task:
    return Task(env_id=f"{name}-v5", total_timesteps=10_000_000, num_envs=16, num_minibatches=32)


def _atari(name: str) -> Task:
    return Task(
        env_id=f"{name}-v5",
        total_timesteps=10_000_000,
        num_envs=32,
        horizon=128,
        num_epochs=4,
        num_minibatches=32,
        learning_rate=2.5e-4,
        value_cost=1.0,
        entropy_cost=0.01,
        normalize_rewards=False,  # the reward is clipped to its sign instead
    )


TASKS: dict[str, Task] = {
    "pendulum": Task(env_id="Pendulum-v1"),
    "lunar-lander": Task(env_id="LunarLander-v3"),
    "bipedal-walker": Task(env_id="BipedalWalker-v3", total_timesteps=5_000_000, num_envs=32),
    "bipedal-walker-hardcore": Task(env_id="BipedalWalkerHardcore-v3", total_timesteps=50_000_000, num_envs=128),
    "unlock": Task(env_id="MiniGrid-Unlock-v0", total_timesteps=100_000),
    "unlock-pickup": Task(env_id="MiniGrid-UnlockPickup-v0"),
    "half-cheetah": _mujoco("HalfCheetah"),
    "walker2d": _mujoco("Walker2d"),
    "hopper": _mujoco("Hopper"),
    "ant": _mujoco("Ant"),
    "humanoid": _mujoco("Humanoid"),
    "humanoid-standup": _mujoco("HumanoidStandup"),
    "beam-rider": _atari("BeamRider"),
    "breakout": _atari("Breakout"),
    "enduro": _atari("Enduro"),
    "gopher": _atari("Gopher"),
    "seaquest": _atari("Seaquest"),
    "space-invaders": _atari("SpaceInvaders"),
}


def task(name: str) -> Task:
    """Look up a task by its name."""
    if name not in TASKS:
        raise TrustaxError(f"the paper has no task {name!r}; {similar_or_all(name, TASKS)}")
    return TASKS[name]


def task_of(env_id: str) -> Task | None:
    """The task of an environment id with any engine and version; all Atari games share their settings."""
    bare = bare_id(env_id)
    for task in TASKS.values():
        if _unversioned(task.env_id) == _unversioned(bare.removeprefix("ALE/")):
            return task
    return _atari("") if is_atari(bare) else None


def _unversioned(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)
