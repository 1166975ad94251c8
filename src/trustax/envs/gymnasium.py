"""Gymnasium environments, registered or made by a callable, stepped from Python."""

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
"""The extra to install for environments that need a package."""

FAMILIES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}
"""Packages that register ids with these prefixes when they are imported."""


class GymnasiumHost:
    """Gymnasium environments, stepped one after another in this process: a `HostEnvironment`."""

    def __init__(
        self,
        env: str | Callable[[], gymnasium.Env],
        seeds: Sequence[int],
        num_envs: int,
        wrapper: Callable[[gymnasium.Env], gymnasium.Env] = lambda env: env,
    ) -> None:
        self._name = name = env if isinstance(env, str) else getattr(env, "__name__", repr(env))
        copies = [wrapper(copy) for copy in _make_copies(env, name, len(seeds) * num_envs)]
        self.spec = spec_of(name, copies[0].observation_space, copies[0].action_space)
        self._seeds = seeds
        self._axes = (len(seeds), num_envs)
        self._reports_success = False
        self._vector: Any = SyncVectorEnv(
            [partial(_return_existing, copy) for copy in copies],
            copy=False,  # this class copies all results anyway
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )
        assert self._vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP

    def reset(self, start: int = 0) -> np.ndarray:
        _, num_envs = self._axes
        seeds = [environment_seed(seed, env, start) for seed in self._seeds for env in range(num_envs)]
        with environment_errors(self._name):
            observation, _ = self._vector.reset(seed=seeds)
            return self._convert_observation(observation)

    def step(self, action: np.ndarray) -> TimeStep:
        space = self._vector.single_action_space
        with environment_errors(self._name):
            observation, reward, terminated, truncated, info = self._vector.step(
                to_batch(np.asarray(action), space, space.dtype)
            )
        return TimeStep(
            self._convert_observation(observation),
            self._unflatten(reward, "float32"),
            self._unflatten(terminated, "bool"),
            self._unflatten(truncated, "bool"),
            # Only the Atari wrappers report both, at every step and reset.
            raw_reward=self._unflatten(info["score"], "float32") if {"score", "over"} <= info.keys() else None,
            game_over=self._unflatten(info["over"], "bool") if {"score", "over"} <= info.keys() else None,
            success=self._success(info),
        )

    def _success(self, info: dict[str, Any]) -> np.ndarray | None:
        """`is_success`, as in Stable-Baselines3. It counts as False in later steps that do not report it."""
        self._reports_success |= "is_success" in info
        if not self._reports_success:
            return None
        return self._unflatten(info.get("is_success", np.zeros(self._vector.num_envs)), "bool")

    def close(self) -> None:
        self._vector.close()

    def _convert_observation(self, batch: Any) -> np.ndarray:
        parts = self.spec.parts
        return self._unflatten(batch if parts is None else flatten(parts, batch), self.spec.observation_dtype)

    def _unflatten(self, batch: np.ndarray, dtype: str) -> np.ndarray:
        return np.array(batch, dtype).reshape(self._axes + batch.shape[1:])


def _make_copies(env: str | Callable[[], gymnasium.Env], name: str, count: int) -> list[gymnasium.Env]:
    if isinstance(env, str):
        # Gymnasium's environment checker is meant for authors and takes time: once is enough.
        return [registered(env, disable_env_checker=None if index == 0 else True) for index in range(count)]
    copies = [env() for _ in range(count)]
    for copy in copies:
        if not isinstance(copy, gymnasium.Env):
            raise TrustaxError(f"{name} must return a gymnasium.Env, not {type(copy).__name__}")
    if len({id(copy) for copy in copies}) < count:
        raise TrustaxError(f"{name} must make a new environment at each call, not return the same one")
    return copies


def _return_existing(env: gymnasium.Env) -> gymnasium.Env:
    """Return an existing environment, since a vector environment takes functions that make one."""
    return env


def registered(env_id: str, **options: Any) -> gymnasium.Env:
    """Make a registered environment with the wrappers for learning; `options` go to `gymnasium.make`."""
    family = family_of(env_id)
    try:
        if family is not None:
            import_module(family)
        if family == "ale_py":
            return preprocess(gymnasium.make(env_id, **ALE_OPTIONS, **options))
        environment = gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise TrustaxError(f"gymnasium:{env_id} cannot be made: {_explain_failure(env_id, error)}") from error
    return SymbolicView(environment) if family == "minigrid" else environment


def family_of(env_id: str) -> str | None:
    """The package in `FAMILIES` that registers an id with Gymnasium, if any.

    >>> family_of("ALE/Pong-v5"), family_of("CartPole-v1")
    ('ale_py', None)
    """
    return next((package for prefix, package in FAMILIES.items() if env_id.startswith(prefix)), None)


def _explain_failure(env_id: str, error: Exception) -> str:
    """The reason why an environment cannot be made, in one line, and the extra to install if that is missing."""
    reason = " ".join(str(error).split())
    specification = gymnasium.registry.get(env_id)
    code = family_of(env_id) or getattr(specification, "entry_point", "")
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError):
        for package, extra in EXTRAS.items():
            if package in str(code):
                return f'a dependency is not installed: pip install "{extra}"'
    if isinstance(error, ModuleNotFoundError) and ":" in env_id:
        return f"{reason} To import a module from this folder, set PYTHONPATH=."
    return reason
