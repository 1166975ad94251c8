"""The contract of an algorithm, and what all of them do alike before and after their own equation.

An algorithm is a frozen dataclass of hyperparameters with two pure functions. It knows nothing of environments,
files, clocks or loggers, and it is final: methods share functions, never behaviour by inheritance.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Key

from trustax.networks import Policy
from trustax.types import EnvSpec, Metrics, Progress, Rollout


class LearnerState(Protocol):
    """Everything an algorithm remembers; a pytree of arrays."""

    @property
    def policy(self) -> Policy:
        """The policy that acts."""
        ...


@runtime_checkable
class Algorithm(Protocol):
    """Two pure functions; both may be compiled, and mapped over seeds."""

    @property
    def discount(self) -> float: ...

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> Any:
        """The state before the first update."""
        ...

    def update(self, state: Any, rollout: Rollout, progress: Progress, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        """Learn from one rollout of `state.policy`. A metric is a scalar, or a series with one entry an update."""
        ...
