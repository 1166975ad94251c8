"""Any Gymnasium environment, registered or made by a callable, stepped from Python."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from trustax.envs.atari import ALE_OPTIONS, preprocess
from trustax.envs.base import environment_seed
from trustax.envs.errors import environment_errors
from trustax.envs.gymnasium_spaces import spec_of, to_batch
from trustax.envs.minigrid import SymbolicView
from trustax.errors import TrustaxError
from trustax.ops.observations import flatten
from trustax.types import TimeStep

EXTRAS = {
    "box2d": "trustax[box2d]",
    "mujoco": "trustax[mujoco]",
    "minigrid": "trustax[minigrid]",
    "ale_py": "trustax[atari]",
}
"""What to install for environments whose code is in a package of this name."""

FAMILIES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}
"""The package that registers the ids with this beginning, as soon as it is imported."""


class GymnasiumHost:
    """Gymnasium environments one after another in this process, each in a wrapper: a `HostEnvironment`."""

    def __init__(
        self,
        env: str | Callable[[], gymnasium.Env],
        seeds: Sequence[int],
        num_envs: int,
        wrapper: Callable[[gymnasium.Env], gymnasium.Env] = lambda env: env,
    ) -> None:
        self._name = name = env if isinstance(env, str) else getattr(env, "__name__", repr(env))
        copies = [wrapper(copy) for copy in _copies(env, name, len(seeds) * num_envs)]
        self.spec = spec_of(name, copies[0].observation_space, copies[0].action_space)
        self._seeds = seeds
        self._axes = (len(seeds), num_envs)
        self._knows_success = False
        self._vector: Any = SyncVectorEnv(
            [partial(_same, copy) for copy in copies],
            copy=False,  # what leaves this class is copied anyway
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )
        assert self._vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP

    def reset(self, start: int = 0) -> np.ndarray:
        _, num_envs = self._axes
        seeds = [environment_seed(seed, env, start) for seed in self._seeds for env in range(num_envs)]
        with environment_errors(self._name):
            observation, _ = self._vector.reset(seed=seeds)
            return self._seen(observation)

    def step(self, action: np.ndarray) -> TimeStep:
        space = self._vector.single_action_space
        with environment_errors(self._name):
            observation, reward, terminated, truncated, info = self._vector.step(
                to_batch(np.asarray(action), space, space.dtype)
            )
        return TimeStep(
            self._seen(observation),
            self._wide(reward, "float32"),
            self._wide(terminated, "bool"),
            self._wide(truncated, "bool"),
            # Of Atari alone, whose wrappers tell both at every step and reset.
            raw_reward=self._wide(info["score"], "float32") if {"score", "over"} <= info.keys() else None,
            game_over=self._wide(info["over"], "bool") if {"score", "over"} <= info.keys() else None,
            success=self._success(info),
        )

    def _success(self, info: dict[str, Any]) -> np.ndarray | None:
        """`is_success`, Stable-Baselines3's convention. Who has told it once, and does not now, has not succeeded."""
        self._knows_success |= "is_success" in info
        if not self._knows_success:
            return None
        return self._wide(info.get("is_success", np.zeros(self._vector.num_envs)), "bool")

    def close(self) -> None:
        self._vector.close()

    def _seen(self, batch: Any) -> np.ndarray:
        parts = self.spec.parts
        return self._wide(batch if parts is None else flatten(parts, batch), self.spec.observation_dtype)

    def _wide(self, batch: np.ndarray, dtype: str) -> np.ndarray:
        return np.array(batch, dtype).reshape(self._axes + batch.shape[1:])


def _copies(env: str | Callable[[], gymnasium.Env], name: str, count: int) -> list[gymnasium.Env]:
    if isinstance(env, str):
        # Gymnasium's checks of an environment are for its author: once is enough, and they cost time.
        return [registered(env, disable_env_checker=None if index == 0 else True) for index in range(count)]
    copies = [env() for _ in range(count)]
    for copy in copies:
        if not isinstance(copy, gymnasium.Env):
            raise TrustaxError(f"{name} must return a gymnasium.Env, not {type(copy).__name__}")
    if len({id(copy) for copy in copies}) < count:
        raise TrustaxError(f"{name} must make a new environment at each call, not return the same one again")
    return copies


def _same(env: gymnasium.Env) -> gymnasium.Env:
    """A vector environment is given functions, while ours exist already: they are checked first."""
    return env


def registered(env_id: str, **options: Any) -> gymnasium.Env:
    """One environment by its id, as a learner sees it; `options` are those of `gymnasium.make`."""
    family = family_of(env_id)
    try:
        if family is not None:
            import_module(family)
        if family == "ale_py":
            return preprocess(gymnasium.make(env_id, **ALE_OPTIONS, **options))
        made = gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise TrustaxError(f"gymnasium:{env_id} cannot be made: {_remedy(env_id, error)}") from error
    return SymbolicView(made) if family == "minigrid" else made


def family_of(env_id: str) -> str | None:
    """The package that an id needs before Gymnasium knows it, if it is one of `FAMILIES`.

    >>> family_of("ALE/Pong-v5"), family_of("CartPole-v1")
    ('ale_py', None)
    """
    return next((package for prefix, package in FAMILIES.items() if env_id.startswith(prefix)), None)


def _remedy(env_id: str, error: Exception) -> str:
    """What Gymnasium says in one line, and which extra to install where that is the cause."""
    reason = " ".join(str(error).split())
    specification = gymnasium.registry.get(env_id)
    code = family_of(env_id) or getattr(specification, "entry_point", "")
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError):
        for package, extra in EXTRAS.items():
            if package in str(code):
                return f'a dependency is not installed: pip install "{extra}"'
    if isinstance(error, ModuleNotFoundError) and ":" in env_id:
        return f"{reason} A module of this folder is found with PYTHONPATH=."
    return reason
