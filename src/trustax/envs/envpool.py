"""EnvPool: environments in C++ on a thread pool, stepped from compiled code or from Python.

Notes:

- EnvPool reports a termination at the time limit only as a truncation.
- Its `reset` starts new episodes but does not reset the random streams, which are fixed when a pool is made. So every
  `reset` here uses a new pool.
- The compiled form runs on the CPU even if there is a GPU: in a program for the GPU its rewards would be zeros.
- A convolutional policy is too slow on the CPU, so with a GPU image environments are stepped from Python.
- EnvPool is imported on first use, because it is optional and its import takes more than a second.
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
from trustax.networks import can_convolve
from trustax.ops.observations import flatten
from trustax.runtime.cores import available_cores
from trustax.types import TimeStep


def envpool_ids() -> list[str]:
    """All ids in EnvPool; empty if EnvPool is not installed."""
    try:
        import envpool
    except ImportError:
        return []
    return list(envpool.list_all_envs())


def envpool_has_images(env_id: str) -> bool:
    """Whether observations are images, without making an environment."""
    import envpool

    if atari.is_atari(env_id):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about wrong bounds
        space = envpool.make_spec(env_id).observation_space
    return space.dtype == np.uint8 and can_convolve(space.shape)


def make_envpool(env_id: str, seeds: Sequence[int], num_envs: int, compiled: bool) -> "EnvPoolCompiled | EnvPoolHost":
    """Make the environments of an id, in compiled form if requested and efficient on this machine."""
    pool = Pool(env_id, seeds, num_envs)
    is_efficient = sys.platform == "linux" and (jax.default_backend() == "cpu" or not pool.spec.is_image)
    return EnvPoolCompiled(pool) if compiled and is_efficient else EnvPoolHost(pool)


class Pool:
    """A pool of `seed x env` environments, with conversions between its flat batch and the axes `seed env`."""

    def __init__(self, env_id: str, seeds: Sequence[int], num_envs: int) -> None:
        self._env_id = env_id
        self._options = atari.envpool_options(env_id)
        self._seeds = seeds
        self._axes = (len(seeds), num_envs)
        self.raw = self._make(start=0)
        self._next_start: int | None = 0
        """the start number of the current pool, or None once it is used"""
        self.spec = spec_of(f"envpool:{env_id}", self._observation_space(), self.raw.action_space)
        # Gymnasium's Discrete declares int64, but the C++ code reads int32.
        self._action_dtype = self.raw.spec.action_array_spec["action"].dtype

    def begin(self, start: int) -> None:
        """Make sure that the pool is unused and has the random streams of this start number."""
        if start != self._next_start:
            self.raw.close()
            self.raw = self._make(start)
        self._next_start = None

    def _make(self, start: int) -> Any:
        import envpool

        seeds = [environment_seed(seed, env, start) for seed in self._seeds for env in range(self._axes[1])]
        pool = envpool.make(
            self._env_id,
            env_type="gymnasium",
            num_envs=len(seeds),
            # EnvPool counts all cores of the machine, also those that this process may not use.
            num_threads=min(len(seeds), len(available_cores())),
            seed=seeds,
            **self._options,
        )
        with warnings.catch_warnings():
            # EnvPool's observation bounds are often wrong, and Gymnasium warns about some. They are not used here.
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
        return self._unflatten(batch).astype(self.spec.observation_dtype)

    def timestep(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> TimeStep:
        timestep = TimeStep(
            self.observation(observation),
            self._unflatten(reward).astype(np.float32),
            self._unflatten(terminated),
            self._unflatten(truncated),
        )
        if minigrid.is_minigrid(self._env_id):
            return timestep._replace(success=timestep.terminated & (timestep.reward > 0))
        if self._options:
            raw_reward, game_over = atari.raw_reward_and_game_over(info, terminated, truncated)
            return timestep._replace(raw_reward=self._unflatten(raw_reward), game_over=self._unflatten(game_over))
        return timestep

    def _unflatten(self, batch: Any) -> Any:
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

    The state is only a handle that orders the steps; the environments live in the pool. So the state cannot be saved,
    steps cannot be repeated from an earlier state, and the code that steps it must run on one device.

    EnvPool declares its results with JAX's default types of 32 bits, but its C++ code writes 64 bits for environments
    that use them (all of MuJoCo), past the end of the buffers. So all calls are traced with 64-bit types enabled, and
    results are cast to 32 bits.
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
