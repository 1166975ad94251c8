"""The interface of an algorithm.

An algorithm is a frozen dataclass of hyperparameters with two pure functions. It does not access environments, files,
clocks or loggers. Algorithms share code through functions, not by overriding inherited methods.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Key

from trustax.networks import Policy
from trustax.types import EnvSpec, Metrics, Progress, Rollout


@runtime_checkable
class LearnerState(Protocol):
    """Everything an algorithm keeps between updates; a pytree of arrays."""

    @property
    def policy(self) -> Policy:
        """The policy that collects the next rollout."""
        ...


@runtime_checkable
class Algorithm(Protocol):
    """Hyperparameters and two pure functions, which are compiled and mapped over seeds."""

    @property
    def discount(self) -> float: ...

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> LearnerState:
        """The state before the first update."""
        ...

    def update(self, state: Any, rollout: Rollout, progress: Progress, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        """Learn from one rollout of `state.policy`.

        A metric is a scalar, or a series with one entry per gradient update.
        """
        ...
