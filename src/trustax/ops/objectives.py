"""One equation, one function: expectations, and what they are taken of.

Every expectation is a weighted mean, because rows that are no transitions carry weight 0.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jax.lax import clamp
from jaxtyping import Array, Float

from trustax.ops.distributions import Distribution

Samples = Float[Array, " batch"]
Scalar = Float[Array, ""]

LOG_RATIO_LIMIT = 20.0
"""Clamp of log τ before exp: its gradient is dead only where a ratio is beyond 5e8."""


def expectation(samples: Samples, weight: Samples) -> Scalar:
    """Ê[x] = Σ w x / Σ w, and 0 where no row counts."""
    return weight @ samples / jnp.maximum(jnp.sum(weight), 1.0)


def expectations(rows: Sequence[Samples], weight: Samples) -> Float[Array, " row"]:
    """Ê of several quantities at once: one product, where each by itself would be a loop of its own."""
    return jnp.stack(rows) @ weight / jnp.maximum(jnp.sum(weight), 1.0)


def standardize(samples: Float[Array, "*shape"], weight: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """(x - mean) / (std + 1e-5) over all rows that count."""
    count = jnp.maximum(jnp.sum(weight), 1.0)
    mean = jnp.sum(weight * samples) / count
    variance = jnp.sum(weight * (samples - mean) ** 2) / count
    return (samples - mean) / (jnp.sqrt(variance) + 1e-5)


def importance_ratio(log_prob: Samples, old_log_prob: Samples) -> Samples:
    """τ = π(a|s) / π_old(a|s)"""
    return jnp.exp(clamp(-LOG_RATIO_LIMIT, log_prob - old_log_prob, LOG_RATIO_LIMIT))


def surrogate(ratio: Samples, advantage: Samples, weight: Samples) -> Scalar:
    """Ê[τ A], the conservative policy iteration objective."""
    return expectation(ratio * advantage, weight)


def clipped_gain(
    ratio: Samples, advantage: Samples, lower: Samples | Scalar | float, upper: Samples | Scalar | float
) -> Samples:
    """min(τ A, clip(τ, l, u) A), PPO's objective."""
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, lower, upper) * advantage)


def mean_kl(p: Distribution, q: Distribution, weight: Samples) -> Scalar:
    """D(p, q) = Ê[KL(p‖q)]; not symmetric."""
    return expectation(p.kl(q), weight)


def mean_entropy(p: Distribution, weight: Samples) -> Scalar:
    """Ê[H(p)]"""
    return expectation(p.entropy(), weight)


def squared_error(value: Samples, target: Samples, weight: Samples) -> Scalar:
    """Ê[(V - G)²]"""
    return expectation((value - target) ** 2, weight)


def clipped_value_error(value: Samples, old_value: Samples, target: Samples, clip_range: Scalar | float) -> Samples:
    """½ max((V - G)², (V_old + clip(V - V_old, ±ε) - G)²)"""
    clipped = old_value + clamp(-clip_range, value - old_value, clip_range)
    return 0.5 * jnp.maximum((value - target) ** 2, (clipped - target) ** 2)


def explained_variance(value: Samples, target: Samples, weight: Samples) -> Scalar:
    """1 - Var[G - V] / Var[G]: 1 is a perfect critic, 0 one no better than a constant."""
    error = target - value
    residual = expectation((error - expectation(error, weight)) ** 2, weight)
    total = expectation((target - expectation(target, weight)) ** 2, weight)
    return 1 - residual / jnp.maximum(total, 1e-8)


def adapt_kl_cost(kl_cost: Scalar, kl: Scalar, kl_target: Scalar | float) -> Scalar:
    """Halve β when the policy moved less than two thirds of the target, double it beyond one and a half."""
    halved = jnp.where(kl < kl_target / 1.5, kl_cost / 2, kl_cost)
    return jnp.clip(jnp.where(kl > kl_target * 1.5, kl_cost * 2, halved), 1e-8, 1e8)
