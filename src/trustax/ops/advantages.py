"""Generalized advantage estimation (Schulman et al. 2016), which distinguishes termination from truncation."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    reward: Float[Array, " time *env"],
    value: Float[Array, " time+1 *env"],
    terminated: Bool[Array, " time *env"],
    truncated: Bool[Array, " time *env"],
    discount: float,
    gae_lambda: Float[Array, ""] | float,
) -> Float[Array, " time *env"]:
    """Âₜ = δₜ + γλ Âₜ₊₁ within an episode, with δₜ = rₜ + γ V(sₜ₊₁) - V(sₜ).

    After a termination V(sₜ₊₁) counts as 0; a truncated episode bootstraps from V(sₜ₊₁). In both cases the advantages
    of the next episode are cut off.

    >>> from jax.numpy import array
    >>> gae(array([1.0]), array([0.5, 2.0]), array([True]), array([False]), 0.9, 0.95)
    Array([0.5], dtype=float32)
    >>> gae(array([1.0]), array([0.5, 2.0]), array([False]), array([True]), 0.9, 0.95)
    Array([2.3], dtype=float32)
    """
    delta = reward + discount * value[1:] * ~terminated - value[:-1]
    decay = discount * gae_lambda * ~(terminated | truncated)

    def accumulate(
        next_advantage: Float[Array, "*env"], step: tuple[Float[Array, "*env"], Float[Array, "*env"]]
    ) -> tuple[Float[Array, "*env"], Float[Array, "*env"]]:
        advantage = step[0] + step[1] * next_advantage
        return advantage, advantage

    _, advantage = jax.lax.scan(accumulate, jnp.zeros_like(delta[0]), (delta, decay), reverse=True, unroll=8)
    return advantage
