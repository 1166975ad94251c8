"""The environment contract.

An environment here is wide: `num_envs` copies for each of `num_seeds` learners, and every array it gives or
takes starts with the axes `seed env`. Autoreset is NEXT_STEP (see `trustax.types.TimeStep`).

Learner seed s sees the same environments whether it trains alone or beside other seeds: whatever is random in
environment e of learner s comes from (s, e) alone; and from the number of the start, where a run begins more than once.

It comes in two forms. A *compiled* environment is a pair of pure functions that run inside the compiled
training iteration. A *host* environment is stepped from Python and speaks NumPy.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array

from trustax.types import EnvSpec, TimeStep

EnvState = Any
"""A pytree of arrays, opaque to everyone but the environment it belongs to."""


def environment_seed(seed: int, env: int, start: int = 0) -> int:
    """The seed of environment `env` of learner `seed`, for engines that take an integer of 31 bits.

    >>> environment_seed(seed=0, env=1) == environment_seed(seed=1, env=0)
    False
    """
    numbers = (seed, env, start) if start else (seed, env)
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1


@runtime_checkable
class CompiledEnvironment(Protocol):
    """Steps inside `jit` and `lax.scan`."""

    spec: EnvSpec

    resumable: bool
    """Whether the state is all there is, so that saving it is enough to continue exactly."""

    on_cpu: bool
    """Whether it steps on one CPU device alone, wherever the learners are."""

    def reset(self, start: int = 0) -> tuple[EnvState, Array]:
        """The state at the start of that number and the first observations, `seed env ...`; before `step` is traced."""
        ...

    def draw_starts(self, state: EnvState, num_steps: int) -> tuple[EnvState, Any]:
        """What the next steps may need of chance to begin episodes, `time seed env ...`; None if it is drawn inside."""
        ...

    def step(self, state: EnvState, action: Array, starts: Any = None) -> tuple[EnvState, TimeStep]:
        """One step of every environment, with a row of `draw_starts` or none; pure, so it may be traced."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class HostEnvironment(Protocol):
    """Steps from Python, on NumPy arrays."""

    spec: EnvSpec

    def reset(self, start: int = 0) -> np.ndarray:
        """Start every environment anew and return the first observations, `seed env ...`.

        All that is random from here on follows from the number of the start.
        """
        ...

    def step(self, action: np.ndarray) -> TimeStep:
        """One step of every environment."""
        ...

    def close(self) -> None: ...


class HostAdapter:
    """A compiled environment driven from Python: a host environment."""

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
