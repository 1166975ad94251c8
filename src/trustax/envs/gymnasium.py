"""Any Gymnasium environment, registered or made by a callable, stepped from Python."""

from collections.abc import Callable, Sequence
from functools import partial

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from trustax.envs.base import environment_seed
from trustax.envs.spaces import spec_of, to_batch
from trustax.errors import TrustaxError
from trustax.types import TimeStep

EXTRAS = {"box2d": "trustax[box2d]", "mujoco": "gymnasium[mujoco]"}
"""What to install for the families of Gymnasium that need more than Gymnasium."""


class GymnasiumHost:
    """Gymnasium environments one after another in this process: a `HostEnvironment`."""

    def __init__(self, env: str | Callable[[], gymnasium.Env], seeds: Sequence[int], num_envs: int) -> None:
        name = env if isinstance(env, str) else getattr(env, "__name__", repr(env))
        copies = _copies(env, name, len(seeds) * num_envs)
        self.spec = spec_of(name, copies[0].observation_space, copies[0].action_space)
        self._seeds = [environment_seed(seed, index) for seed in seeds for index in range(num_envs)]
        self._axes = (len(seeds), num_envs)
        self._vector = SyncVectorEnv(
            [partial(_same, copy) for copy in copies],
            copy=False,  # what leaves this class is copied anyway
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )
        assert self._vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP

    def reset(self) -> np.ndarray:
        observation, _ = self._vector.reset(seed=list(self._seeds))
        return self._wide(observation, self.spec.observation_dtype)

    def step(self, action: np.ndarray) -> TimeStep:
        space = self._vector.single_action_space
        observation, reward, terminated, truncated, _ = self._vector.step(
            to_batch(np.asarray(action), space, space.dtype)
        )
        return TimeStep(
            self._wide(observation, self.spec.observation_dtype),
            self._wide(reward, "float32"),
            self._wide(terminated, "bool"),
            self._wide(truncated, "bool"),
        )

    def close(self) -> None:
        self._vector.close()

    def _wide(self, batch: np.ndarray, dtype: str) -> np.ndarray:
        return np.array(batch, dtype).reshape(self._axes + batch.shape[1:])


def _copies(env: str | Callable[[], gymnasium.Env], name: str, count: int) -> list[gymnasium.Env]:
    if isinstance(env, str):
        return [_registered(env, first=index == 0) for index in range(count)]
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


def _registered(env_id: str, first: bool) -> gymnasium.Env:
    try:
        # Gymnasium's checks of an environment are for its author: once is enough, and they cost time.
        return gymnasium.make(env_id, disable_env_checker=None if first else True)
    except (gymnasium.error.Error, ImportError) as error:
        raise TrustaxError(f"gymnasium:{env_id} cannot be made: {_remedy(env_id, error)}") from error


def _remedy(env_id: str, error: Exception) -> str:
    """What Gymnasium says in one line, and which extra to install where that is the cause."""
    reason = " ".join(str(error).split())
    specification = gymnasium.registry.get(env_id)
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError) and specification is not None:
        for family, extra in EXTRAS.items():
            if f".{family}" in str(specification.entry_point):
                return f'a dependency is not installed: pip install "{extra}"'
    return reason
