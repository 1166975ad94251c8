"""EnvPool: environments in C++ on a pool of threads, stepped from inside compiled code or from Python.

What to know of it:

- EnvPool reports a termination that falls on the time limit as a truncation only.
- Its `reset` starts new episodes but does not rewind the random streams: those are fixed when a pool is made. So every
  `reset` of ours has a pool of its own.
- The compiled form runs on the CPU, also where there is a GPU: as a GPU's program its rewards would arrive as zeros.
- A convolutional policy is too slow for the CPU, so with a GPU images are stepped from Python.
- EnvPool is imported when first needed, since it may be absent and takes more than a second.
"""

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from trustax.envs import atari, minigrid
from trustax.envs.base import environment_seed
from trustax.envs.gymnasium_spaces import spec_of, to_batch
from trustax.ops.observations import flatten
from trustax.types import TimeStep


def envpool_ids() -> list[str]:
    """Every id that EnvPool knows; none where EnvPool is not installed."""
    try:
        import envpool
    except ImportError:
        return []
    return list(envpool.list_all_envs())


def make_envpool(env_id: str, seeds: Sequence[int], num_envs: int, compiled: bool) -> "EnvPoolCompiled | EnvPoolHost":
    """The environments of an id, compiled if that is asked for and pays here."""
    pool = Pool(env_id, seeds, num_envs)
    pays = sys.platform == "linux" and (jax.default_backend() == "cpu" or not pool.spec.is_image)
    return EnvPoolCompiled(pool) if compiled and pays else EnvPoolHost(pool)


class Pool:
    """One pool of `seed x env` environments, and the way between its flat batch and the axes `seed env`."""

    def __init__(self, env_id: str, seeds: Sequence[int], num_envs: int) -> None:
        self._env_id = env_id
        self._options = atari.envpool_options(env_id)
        self._seeds = seeds
        self._axes = (len(seeds), num_envs)
        self.raw = self._make(start=0)
        self._next_start: int | None = 0
        """what the pool was made for, as long as it is unused"""
        self.spec = spec_of(f"envpool:{env_id}", self._observation_space(), self.raw.action_space)
        # Gymnasium's Discrete says int64 where the C++ code reads int32.
        self._action_dtype = self.raw.spec.action_array_spec["action"].dtype

    def begin(self, start: int) -> None:
        """Have an unused pool with the random streams of this start."""
        if start != self._next_start:
            self.raw.close()
            self.raw = self._make(start)
        self._next_start = None

    def _make(self, start: int) -> Any:
        import envpool

        num_seeds, num_envs = self._axes
        seeds = [environment_seed(seed, env, start) for seed in self._seeds for env in range(num_envs)]
        pool = envpool.make(
            self._env_id, env_type="gymnasium", num_envs=num_seeds * num_envs, seed=seeds, **self._options
        )
        with warnings.catch_warnings():
            # Its bounds of observations are often wrong, and Gymnasium warns of some at the first look. We use none.
            warnings.simplefilter("ignore")
            assert pool.observation_space is not None
        return pool

    def _observation_space(self) -> Any:
        if minigrid.is_minigrid(self._env_id):
            return minigrid.observation_space(self._env_id)
        return self.raw.observation_space

    def action(self, action: Any) -> Any:
        return to_batch(action, self.raw.action_space, self._action_dtype)

    def observation(self, batch: Any) -> Any:
        if minigrid.is_minigrid(self._env_id):
            batch = minigrid.to_vector(self._env_id, batch)
        elif self.spec.parts is not None:
            batch = flatten(self.spec.parts, batch)
        return self._wide(batch).astype(self.spec.observation_dtype)

    def timestep(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> TimeStep:
        timestep = TimeStep(
            self.observation(observation),
            self._wide(reward).astype(np.float32),
            self._wide(terminated),
            self._wide(truncated),
        )
        if minigrid.is_minigrid(self._env_id):
            return timestep._replace(success=timestep.terminated & (timestep.reward > 0))
        if self._options:
            raw_reward, game_over = atari.raw_reward_and_game_over(info, terminated, truncated)
            return timestep._replace(raw_reward=self._wide(raw_reward), game_over=self._wide(game_over))
        return timestep

    def _wide(self, batch: Any) -> Any:
        return batch.reshape(self._axes + batch.shape[1:])


class EnvPoolHost:
    """EnvPool stepped from Python: a `HostEnvironment`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.spec = pool.spec

    def reset(self, start: int = 0) -> np.ndarray:
        self._pool.begin(start)
        observation, _ = self._pool.raw.reset()
        return self._pool.observation(observation)

    def step(self, action: np.ndarray) -> TimeStep:
        return self._pool.timestep(*self._pool.raw.step(self._pool.action(np.asarray(action))))

    def close(self) -> None:
        self._pool.raw.close()


class EnvPoolCompiled:
    """EnvPool stepped by XLA: a `CompiledEnvironment`.

    The state is only a handle that puts the steps in order; the environments live in the pool. So it cannot
    be saved, steps cannot be repeated from an old state, and the code that steps it must run on one device.

    EnvPool declares its results in the types JAX would give them, of 32 bits by default, while its C++ code
    writes 64 bits where the environment has them (all of MuJoCo), past the end of the buffers. So whatever
    touches it is traced with 64 bits enabled, and cast before it leaves.
    """

    resumable = False
    on_cpu = True

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.spec = pool.spec
        self._step: Any = None

    def reset(self, start: int = 0) -> tuple[Array, Array]:
        self._pool.begin(start)
        self._pool.raw.async_reset()
        with jax.enable_x64(True):
            handle, receive, _, self._step = self._pool.raw.xla()
            handle, (observation, *_) = jax.jit(receive)(handle)
            return handle, self._pool.observation(observation)

    def draw_starts(self, state: Array, num_steps: int) -> tuple[Array, None]:
        return state, None

    def step(self, state: Array, action: Array, starts: None = None) -> tuple[Array, TimeStep]:
        with jax.enable_x64(True):
            state, result = self._step(state, self._pool.action(action))
            return state, self._pool.timestep(*result)

    def close(self) -> None:
        self._pool.raw.close()
