"""The interface of environments.

An environment is vectorized: it has `num_envs` copies for each of `num_seeds` learners, and every array that it takes
or returns starts with the axes `seed env`. Autoreset is NEXT_STEP (see `trustax.types.TimeStep`).

The learner with seed s gets the same environments whether it trains alone or together with other seeds: all randomness
in environment e of learner s depends only on (s, e), and on the start number if a run is started more than once.

There are two forms. A *compiled* environment is a pair of pure functions that run inside the compiled training
iteration. A *host* environment is stepped from Python and uses NumPy arrays.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array

from trustax.types import EnvSpec, TimeStep

EnvState = Any
"""A pytree of arrays that only its environment interprets."""


def environment_seed(seed: int, env: int, start: int = 0) -> int:
    """The seed of environment `env` of learner `seed`, for engines that take 31-bit integers.

    >>> environment_seed(seed=0, env=1) == environment_seed(seed=1, env=0)
    False
    """
    numbers = (seed, env, start) if start else (seed, env)
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1


@runtime_checkable
class CompiledEnvironment(Protocol):
    """An environment that steps inside `jit` and `lax.scan`."""

    spec: EnvSpec

    resumable: bool
    """Whether the state is complete, so that a run can continue exactly from a saved state."""

    on_cpu: bool
    """Whether it steps only on one CPU device, even if the learners are on other devices."""

    def reset(self, start: int = 0) -> tuple[EnvState, Array]:
        """Return the state and the first observations, `seed env ...`. Must be called before `step` is traced."""
        ...

    def draw_starts(self, state: EnvState, num_steps: int) -> tuple[EnvState, Any]:
        """Pre-sample the starts of episodes for the next steps, `time seed env ...`; None if `step` samples them."""
        ...

    def step(self, state: EnvState, action: Array, starts: Any = None) -> tuple[EnvState, TimeStep]:
        """Step every environment, with a row of `draw_starts` or None. A pure function, which may be traced."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class HostEnvironment(Protocol):
    """An environment that steps from Python, on NumPy arrays."""

    spec: EnvSpec

    def reset(self, start: int = 0) -> np.ndarray:
        """Start every environment and return the first observations, `seed env ...`.

        The start number determines all randomness from here on.
        """
        ...

    def step(self, action: np.ndarray) -> TimeStep:
        """Step every environment."""
        ...

    def close(self) -> None: ...


class HostAdapter:
    """Turns a compiled environment into a host environment."""

    def __init__(self, environment: CompiledEnvironment) -> None:
        self.spec = environment.spec
        self._environment = environment
        self._step = jax.jit(lambda state, action: environment.step(state, action))

    def reset(self, start: int = 0) -> np.ndarray:
        self._state, observation = self._environment.reset(start)
        return np.asarray(observation)

    def step(self, action: np.ndarray) -> TimeStep:
        self._state, timestep = self._step(self._state, action)
        return jax.tree.map(np.asarray, timestep)

    def close(self) -> None:
        self._environment.close()


@runtime_checkable
class Engine(Protocol):
    """A family of environments that an id selects by prefix, as in `gymnasium:Pendulum-v1`."""

    name: str

    resumable: bool
    """Whether the state of its environments can be saved, so that a resumed run continues exactly."""

    def ids(self) -> Collection[str]:
        """The known ids, for suggestions; empty where the engine's package is not installed."""
        ...

    def has(self, env_id: str) -> bool:
        """Whether `make` accepts an id. The engine may accept ids that it cannot list."""
        ...

    def make(
        self, env_id: Any, seeds: Sequence[int], num_envs: int, compiled: bool
    ) -> CompiledEnvironment | HostEnvironment:
        """`num_envs` copies of an environment for each seed; compiled if that is asked for and possible."""
        ...
