"""One equation, one function: the objectives' terms for each sample, and their expectations.

Every expectation is a weighted mean, because rows that are not transitions have weight 0. If the environments of a
learner are divided over devices, it is the mean over the rows of all devices.
"""

from collections.abc import Sequence
from typing import Literal

import jax.numpy as jnp
from jax.lax import clamp
from jaxtyping import Array, Float, Shaped

from trustax.ops.distributions import Distribution
from trustax.ops.transforms import sum_over_devices

Samples = Float[Array, " batch"]
Scalar = Float[Array, ""]
KLEstimator = Literal["exact", "k1", "k2", "k3"]
"""How `kl_to_old` computes a divergence: in closed form, or from the taken actions."""

EPSILON = 1e-5
"""Added to a standard deviation before a division."""
LOG_RATIO_LIMIT = 20.0
"""log τ is clamped to ± this before exp, so the gradient vanishes only where a ratio exceeds 5e8."""


def expectation(samples: Samples, weight: Samples) -> Scalar:
    """Ê[x] = Σ w x / Σ w, or 0 if all weights are 0."""
    total, count = sum_over_devices((weight @ samples, jnp.sum(weight)))
    return total / jnp.maximum(count, 1.0)


def expectations(rows: Sequence[Samples], weight: Samples) -> Float[Array, " row"]:
    """Ê of several quantities as one matrix product, which is faster than one reduction for each."""
    totals, count = sum_over_devices((jnp.stack(rows) @ weight, jnp.sum(weight)))
    return totals / jnp.maximum(count, 1.0)


def standardize(samples: Float[Array, "*shape"], weight: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """(x - mean) / (std + EPSILON), with the weighted mean and standard deviation."""
    count = jnp.maximum(sum_over_devices(jnp.sum(weight)), 1.0)
    mean = sum_over_devices(jnp.sum(weight * samples)) / count
    variance = sum_over_devices(jnp.sum(weight * (samples - mean) ** 2)) / count
    return (samples - mean) / (jnp.sqrt(variance) + EPSILON)


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


def kl_to_old(
    new: Distribution,
    old: Distribution,
    action: Shaped[Array, "batch ..."],
    estimator: KLEstimator = "exact",
    reverse: bool = False,
) -> Samples:
    """KL(π_old‖π) in each state, or KL(π‖π_old) with `reverse`, exact or estimated from actions that π_old took.

    The estimators k1, k2 and k3 see only r = π(a|s) / π_old(a|s), as code does that keeps log-probabilities of the
    taken actions and no distributions (Schulman: Approximating KL Divergence. 2020. joschu.net/blog/kl-approx.html).
    k1 and k3 are unbiased, k2 and k3 are never negative. For KL(π‖π_old), k1 and k3 weight each action by r, because
    π_old took it.
    """
    if estimator == "exact":
        return new.kl(old) if reverse else old.kl(new)
    log_ratio = clamp(-LOG_RATIO_LIMIT, new.log_prob(action) - old.log_prob(action), LOG_RATIO_LIMIT)
    if estimator == "k2":
        return 0.5 * log_ratio**2  # ½ (log r)², in both directions
    weighted = jnp.exp(log_ratio) * log_ratio if reverse else -log_ratio  # k1: r log r, or -log r
    if estimator == "k1":
        return weighted
    return weighted - jnp.expm1(log_ratio) if reverse else weighted + jnp.expm1(log_ratio)  # k3: k1 ∓ (r - 1)


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
    """1 - Var[G - V] / Var[G]: 1 for a perfect critic, 0 for one no better than a constant, or if G is constant."""
    error, mean = target - value, expectation(target, weight)
    residual = expectation((error - expectation(error, weight)) ** 2, weight)
    total = expectation((target - mean) ** 2, weight)
    varies = total > 1e-12 * mean**2  # more than float32 rounds
    return jnp.where(varies, 1 - residual / jnp.where(varies, total, 1.0), 0.0)


def adapt_kl_cost(kl_cost: Scalar, kl: Scalar, kl_target: Scalar | float) -> Scalar:
    """Halve β when the policy moved less than two thirds of the target, double it beyond one and a half; 0 stays 0."""
    halved = jnp.where(kl < kl_target / 1.5, kl_cost / 2, kl_cost)
    adapted = jnp.clip(jnp.where(kl > kl_target * 1.5, kl_cost * 2, halved), 1e-8, 1e8)
    return jnp.where(kl_cost > 0, adapted, 0.0)
