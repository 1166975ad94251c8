"""The clip ranges of TRGPPO: how far a probability ratio can move within a trust region.

Within {π : KL ≤ δ} the ratio π(a|s) / π_old(a|s) can move further for unlikely actions. The bounds depend only on the
likelihood of the action, so they are tabulated once, in float64, and looked up. KL is KL(π‖π_old) for
Gaussians and KL(π_old‖π) for categorical distributions.
"""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LARGEST_DISTANCE = 5.0
DISTANCE_STEP = 1e-3
SMALLEST_PROBABILITY = 0.01
PROBABILITY_STEP = 1e-4


def gaussian_bounds(
    standardized: Float[Array, "*batch action"], clip_range: float
) -> tuple[Float[Array, " *batch"], Float[Array, " *batch"]]:
    """Lower and upper bound of the ratio for an action at z = (a - μ_old)/σ_old.

    δ is chosen so that the smallest upper bound, at z = 0, equals 1 + ε.
    """
    dimension = standardized.shape[-1]
    distance = jnp.sqrt(jnp.sum(standardized**2, axis=-1) / dimension)
    lower, upper = _gaussian_table(dimension, clip_range)
    position = jnp.clip(distance / DISTANCE_STEP, 0, len(lower) - 1.001)
    return _interpolate(lower, position), _interpolate(upper, position)


def categorical_bounds(
    probability: Float[Array, " *batch"], kl_radius: float
) -> tuple[Float[Array, " *batch"], Float[Array, " *batch"]]:
    """Lower and upper bound of the ratio for an action with this probability under the old policy."""
    lower, upper = _categorical_table(kl_radius)
    position = jnp.round((probability - SMALLEST_PROBABILITY) / PROBABILITY_STEP).astype(jnp.int32)
    index = jnp.clip(position, 0, len(lower) - 1)
    return jnp.asarray(lower)[index], jnp.asarray(upper)[index]


def kl_radius_of(dimension: int, clip_range: float) -> float:
    """δ = D/2 (eᵛ - v - 1) with v = -2 ln(1+ε)/D."""
    log_variance = -2 * np.log1p(clip_range) / dimension
    return float(dimension / 2 * (np.expm1(log_variance) - log_variance))


@lru_cache
def _gaussian_table(dimension: int, clip_range: float) -> tuple[np.ndarray, np.ndarray]:
    """Extremes of log π/π_old over all (m, v) with v + m² - 1 - ln v ≤ 2δ/D, in each of D equal dimensions.

    The left side is 2 KL(π‖π_old) of one dimension, for a mean m and a variance v in units of π_old.

    The extremes lie on the boundary, which is sampled: v between the roots of v - 1 - ln v = 2δ/D, and m follows
    from v.
    """
    budget = 2 * kl_radius_of(dimension, clip_range) / dimension
    low, high = (_root(lambda v: v - 1 - np.log(v) - budget, *ends) for ends in ((1e-12, 1.0), (1.0, 1e3)))
    variance = (low + high) / 2 - (high - low) / 2 * np.cos(np.linspace(0, np.pi, 4001))
    shift = np.sqrt(np.maximum(budget - (variance - 1 - np.log(variance)), 0))

    def log_ratio(distance: float, mean: np.ndarray) -> np.ndarray:
        return -0.5 * np.log(variance) - (distance - mean) ** 2 / (2 * variance) + distance**2 / 2

    distances = np.arange(0, LARGEST_DISTANCE, DISTANCE_STEP)
    upper = [np.exp(dimension * log_ratio(x, shift).max()) for x in distances]
    lower = [np.exp(dimension * log_ratio(x, -shift).min()) for x in distances]
    return np.array(lower, np.float32), np.array(upper, np.float32)


@lru_cache
def _categorical_table(kl_radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The two roots y of KL(π_old‖π) = (1-p) ln((1-p)/(1-py)) - p ln y = δ for every probability p."""
    probability = np.arange(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY + PROBABILITY_STEP / 2, PROBABILITY_STEP)

    def excess(ratio: np.ndarray) -> np.ndarray:
        rest = (1 - probability) * np.log((1 - probability) / (1 - probability * ratio))
        return rest - probability * np.log(ratio) - kl_radius

    one = np.ones_like(probability)
    lower = _root(excess, 1e-12 * one, one)
    upper = _root(excess, one, (1 - 1e-12) / probability)
    return lower.astype(np.float32), upper.astype(np.float32)


def _root(function, left, right):  # type: ignore[no-untyped-def]
    """Find a root of a monotonic function by bisection, elementwise; without a root, return the end nearest to 0."""
    is_increasing = function(right) > function(left)
    for _ in range(100):
        middle = (left + right) / 2
        past_root = (function(middle) > 0) == is_increasing
        left, right = np.where(past_root, left, middle), np.where(past_root, middle, right)
    return (left + right) / 2


def _interpolate(table: np.ndarray, position: Float[Array, " *batch"]) -> Float[Array, " *batch"]:
    index = position.astype(jnp.int32)
    values, fraction = jnp.asarray(table), position - index
    return (1 - fraction) * values[index] + fraction * values[index + 1]
