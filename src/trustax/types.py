"""The nouns that all layers share: what an environment offers, what it returns, what a rollout holds."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from trustax.ops.observations import Part

Metrics = dict[str, Array]
"""Scalars by their names, as they come out of a compiled update."""


@dataclass(frozen=True)
class DiscreteActions:
    """`count` actions. A policy numbers them from 0, the environment from `start`."""

    count: int
    start: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def num_outputs(self) -> int:
        """How many numbers a network gives for one action."""
        return self.count

    def for_environment(self, action: Any) -> Any:
        """Actions as the environment numbers them."""
        return action + self.start


@dataclass(frozen=True)
class MultiDiscreteActions:
    """Several discrete actions at once: `counts[i]` choices for the i-th of them, numbered as in `DiscreteActions`.

    A policy sees a vector; the environment has it in `array_shape`, or as it is where that is None.
    """

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    array_shape: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.counts),)

    @property
    def num_outputs(self) -> int:
        return sum(self.counts)

    def for_environment(self, action: Any) -> Any:
        """Actions as the environment numbers them, in its shape; any axes may stand before theirs."""
        numbered = action + np.broadcast_to(np.asarray(self.starts, np.int32), action.shape)
        return numbered.reshape(*action.shape[:-1], *(self.shape if self.array_shape is None else self.array_shape))


@dataclass(frozen=True)
class BoxActions:
    """Real numbers between `low` and `high`, where a bound may be infinite.

    A policy sees a vector; the environment has it in `box_shape`, or as it is where that is None.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    box_shape: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.low),)

    @property
    def num_outputs(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high in float32, rounded inwards: environments refuse what is beyond by a rounding error."""
        exact_low, exact_high = np.asarray(self.low), np.asarray(self.high)
        with np.errstate(over="ignore"):
            low, high = exact_low.astype(np.float32), exact_high.astype(np.float32)
        infinity = np.float32(np.inf)
        low = np.where(low < exact_low, np.nextafter(low, infinity), low)
        return low, np.where(high > exact_high, np.nextafter(high, -infinity), high)

    def for_environment(self, action: Any) -> Any:
        """Actions clipped to the bounds, in the environment's shape; any axes may stand before theirs.

        The log-probability stays that of the unclipped action.
        """
        low, high = (np.broadcast_to(bound, action.shape) for bound in self.bounds)
        clipped = jnp.clip(action, low, high)
        return clipped.reshape(*action.shape[:-1], *(self.shape if self.box_shape is None else self.box_shape))


Actions = DiscreteActions | MultiDiscreteActions | BoxActions


@dataclass(frozen=True)
class EnvSpec:
    """What a network must know of an environment: what comes in and what goes out."""

    observation_shape: tuple[int, ...]
    actions: Actions
    observation_dtype: str = "float32"
    parts: tuple[Part, ...] | None = None
    """What the vector was flattened from, where the environment returns a structure; None where it is an array."""

    @property
    def is_image(self) -> bool:
        """Images are uint8 and of rank 3; everything else is treated as a vector."""
        return self.observation_dtype == "uint8" and len(self.observation_shape) == 3

    @property
    def observation_size(self) -> int:
        return math.prod(self.observation_shape)


class TimeStep(NamedTuple):
    """What one step of the environments returns; every array starts with the axes `seed env`.

    Autoreset is NEXT_STEP: the step that ends an episode returns its true last observation; the step after it
    ignores the action and returns the first observation of the next episode, reward 0 and both flags False.
    """

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    raw_reward: Any = None
    """the reward as it is reported, where learning sees another (Atari's is clipped); None where they are one"""
    game_over: Any = None
    """whether the reported episode ended, where learning sees shorter ones (Atari's lives); None where they are one"""
    success: Any = None
    """whether an episode that ends here reached its goal; None where there is no such thing"""


class Rollout(eqx.Module):
    """`time` steps of `env` environments, as a learner sees them: observations and rewards normalized.

    `observation` has one row more than the rest: row t+1 follows row t, also where an episode ended, so its
    value is what a truncated episode bootstraps from. `weight` is 0 on the row after an ending, which is no
    transition (see `TimeStep`), and 1 elsewhere.
    """

    observation: Shaped[Array, "..."]
    action: Shaped[Array, "..."]
    reward: Float[Array, "*seed time env"]
    terminated: Bool[Array, "*seed time env"]
    truncated: Bool[Array, "*seed time env"]
    weight: Float[Array, "*seed time env"]


class Progress(NamedTuple):
    """How far a training run has come; schedules are functions of it."""

    iteration: Any
    num_iterations: Any

    @property
    def remaining(self) -> Any:
        """From 1 at the first iteration to 1/I at the last: what linear decay multiplies with."""
        return 1.0 - self.iteration / self.num_iterations
