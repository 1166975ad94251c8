"""Types that all layers share: action spaces, environment specifications, time steps and rollouts."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from trustax.errors import TrustaxError
from trustax.ops.observations import Part
from trustax.settings import validated
from trustax.settings.kinds import fitting

Metrics = dict[str, Array]
"""Metrics by name, as a compiled update returns them."""


@dataclass(frozen=True)
class DiscreteActions:
    """`count` actions, numbered from 0 in a policy and from `start` in the environment."""

    count: int
    start: int = 0

    def __post_init__(self) -> None:
        _convert(self)
        if self.count < 1:
            raise TrustaxError(f"the count of DiscreteActions must be at least 1, not {self.count}")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def environment_shape(self) -> tuple[int, ...]:
        """The shape of an action as the environment takes it."""
        return ()

    @property
    def num_outputs(self) -> int:
        """The number of outputs of a policy network."""
        return self.count

    def for_environment(self, action: Any) -> Any:
        """Convert actions to the numbering of the environment."""
        return action + self.start


@dataclass(frozen=True)
class MultiDiscreteActions:
    """Several discrete actions at once, the i-th with `counts[i]` choices, numbered as in `DiscreteActions`.

    A policy works with a vector; the environment takes an array of shape `array_shape`, or the vector if that is None.
    """

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    array_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _convert(self)
        if min(self.counts, default=0) < 1 or len(self.counts) != len(self.starts):
            raise TrustaxError(
                "MultiDiscreteActions must have counts of at least 1 and a start for each, "
                f"not the counts {self.counts} and the starts {self.starts}"
            )
        _convert_shape(self, "array_shape")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.counts),)

    @property
    def environment_shape(self) -> tuple[int, ...]:
        return self.shape if self.array_shape is None else self.array_shape

    @property
    def num_outputs(self) -> int:
        return sum(self.counts)

    def for_environment(self, action: Any) -> Any:
        """Convert actions to the numbering and the shape of the environment; they may have leading batch axes."""
        numbered = action + np.broadcast_to(np.asarray(self.starts, np.int32), action.shape)
        return numbered.reshape(*action.shape[:-1], *self.environment_shape)


@dataclass(frozen=True)
class BoxActions:
    """Real numbers between `low` and `high`; bounds may be infinite.

    A policy works with a vector; the environment takes an array of shape `box_shape`, or the vector if that is None.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    box_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _convert(self)
        pairs = zip(self.low, self.high, strict=False)
        if not 0 < len(self.low) == len(self.high) or not all(low <= high for low, high in pairs):  # false for NaN
            raise TrustaxError(
                "BoxActions must have a low and a high bound for each number, with low <= high, "
                f"not the low bounds {self.low} and the high bounds {self.high}"
            )
        _convert_shape(self, "box_shape")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.low),)

    @property
    def environment_shape(self) -> tuple[int, ...]:
        return self.shape if self.box_shape is None else self.box_shape

    @property
    def num_outputs(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high in float32, rounded inward: environments reject actions beyond their bounds."""
        exact_low, exact_high = np.asarray(self.low), np.asarray(self.high)
        with np.errstate(over="ignore"):
            low, high = exact_low.astype(np.float32), exact_high.astype(np.float32)
        infinity = np.float32(np.inf)
        low = np.where(low < exact_low, np.nextafter(low, infinity), low)
        return low, np.where(high > exact_high, np.nextafter(high, -infinity), high)

    def for_environment(self, action: Any) -> Any:
        """Clip actions to the bounds and reshape them for the environment; they may have leading batch axes.

        Log-probabilities refer to the unclipped actions.
        """
        low, high = (np.broadcast_to(bound, action.shape) for bound in self.bounds)
        clipped = jnp.clip(action, low, high)
        return clipped.reshape(*action.shape[:-1], *self.environment_shape)


Actions = DiscreteActions | MultiDiscreteActions | BoxActions


@dataclass(frozen=True)
class EnvSpec:
    """What a network needs to know about an environment: its observations and its actions."""

    observation_shape: tuple[int, ...]
    actions: Actions
    observation_dtype: str = "float32"
    parts: tuple[Part, ...] | None = None
    """The structure that observations are flattened from; None if the environment returns plain arrays."""

    def __post_init__(self) -> None:
        _convert(self)
        if min(self.observation_shape, default=1) < 1:
            raise TrustaxError(f"observation_shape must have sizes of at least 1, not {self.observation_shape}")
        if not isinstance(self.actions, Actions):
            kinds = "DiscreteActions, MultiDiscreteActions or BoxActions"
            raise TrustaxError(f"the actions of an EnvSpec must be {kinds}, not {type(self.actions).__name__}")
        if self.observation_dtype not in ("float32", "uint8"):
            raise TrustaxError(
                f"observation_dtype must be 'float32' or 'uint8', not {self.observation_dtype!r}; "
                "with 'float32', observations of other types are converted"
            )

    @property
    def is_image(self) -> bool:
        """Images are uint8 and of rank 3; everything else is treated as a vector."""
        return self.observation_dtype == "uint8" and len(self.observation_shape) == 3

    @property
    def observation_size(self) -> int:
        return math.prod(self.observation_shape)


def _convert(spec: Any) -> None:
    """Convert the fields of a frozen dataclass to Python's own types; lists and arrays become tuples."""
    given = vars(spec).items()
    fields = {name: value.tolist() if isinstance(value, np.ndarray | Array) else value for name, value in given}
    for name, value in validated(type(spec), fields).items():
        object.__setattr__(spec, name, value)


def _convert_shape(actions: Any, name: str) -> None:
    """Convert a shape that may be None."""
    if (value := getattr(actions, name)) is None:
        return
    (size,), shape = actions.shape, fitting(name, value, tuple[int, ...])
    if min(shape, default=1) < 1 or math.prod(shape) != size:
        raise TrustaxError(f"{name} must be a shape of {size} entries, not {shape}")
    object.__setattr__(actions, name, shape)


class TimeStep(NamedTuple):
    """The result of one step of all environments; every array starts with the axes `seed env`.

    Autoreset is NEXT_STEP: the step that ends an episode returns its true last observation; the step after it
    ignores the action and returns the first observation of the next episode, with reward 0 and both flags False.
    """

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    raw_reward: Any = None
    """the reward to report, if learning uses a different one (Atari rewards are clipped); else None"""
    game_over: Any = None
    """whether the reported episode ended, if learning uses shorter ones (lives in Atari games); else None"""
    success: Any = None
    """whether an episode that ends here reached its goal; None if the environment has no goal"""

    @property
    def ended(self) -> Any:
        """Whether the episode for learning ended."""
        return self.terminated | self.truncated

    @property
    def reported_reward(self) -> Any:
        return self.reward if self.raw_reward is None else self.raw_reward

    @property
    def reported_end(self) -> Any:
        """Whether the reported episode ended."""
        return self.ended if self.game_over is None else self.game_over


class Rollout(eqx.Module):
    """`time` steps of `env` environments, with observations and rewards normalized for the learner.

    `observation` has one more row than the other fields: row t+1 follows row t, also at the end of an episode, so a
    truncated episode bootstraps from the value of row t+1. `weight` is 0 in the row after the end of an episode, which
    is not a transition (see `TimeStep`), and 1 elsewhere.
    """

    observation: Shaped[Array, "..."]
    action: Shaped[Array, "..."]
    reward: Float[Array, "*seed time env"]
    terminated: Bool[Array, "*seed time env"]
    truncated: Bool[Array, "*seed time env"]
    weight: Float[Array, "*seed time env"]


class Progress(NamedTuple):
    """The progress of a training run; schedules are functions of it."""

    iteration: Any
    num_iterations: Any

    @property
    def remaining(self) -> Any:
        """The factor of a linear decay: 1 at the first iteration, 1/I at the last."""
        return 1.0 - self.iteration / self.num_iterations
