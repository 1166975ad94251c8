"""Adam (Kingma & Ba 2015) with ε = 1e-5, after the gradient's global norm has been clipped.

    m ← β₁ m + (1-β₁) g        v ← β₂ v + (1-β₂) g²        θ ← θ - η m̂ / (√v̂ + ε)

where m̂ = m/(1-β₁ᵗ) and v̂ = v/(1-β₂ᵗ). Both bias corrections are scalars, so they are folded into η and ε:
one division and one square root per parameter instead of three divisions.

`optax.chain(clip_by_global_norm, scale_by_adam)` gives the same steps and took 1.10 to 1.19 times the processor time of
this one in a compiled loop (9,100 to 1,690,000 parameters, medians of alternating repetitions on a busy CPU). It also
needs optax, which is slow to import, and does not return the norm of the gradient.
"""

from math import log
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from trustax.ops.transforms import mean_over_devices

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-5


class AdamState(eqx.Module):
    """The step count t and the moments m and v, which have the structure of the parameters."""

    count: Int[Array, ""]
    mu: Any
    nu: Any


def adam_init(parameters: Any) -> AdamState:
    """The initial state: both moments are zero."""
    mu, nu = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    return AdamState(jnp.zeros((), jnp.int32), mu, nu)


def adam_step(
    parameters: Any,
    gradient: Any,
    state: AdamState,
    learning_rate: Float[Array, ""] | float,
    max_gradient_norm: Float[Array, ""] | float,
) -> tuple[Any, AdamState, Float[Array, ""]]:
    """Take one step; also return the norm of the gradient before clipping."""
    gradient = mean_over_devices(gradient)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    clip_scale = jnp.minimum(1.0, max_gradient_norm / (norm + 1e-6))
    count = state.count + 1
    mu = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * (clip_scale * g), state.mu, gradient)
    nu = jax.tree.map(lambda v, g: BETA_2 * v + (1 - BETA_2) * (clip_scale * g) ** 2, state.nu, gradient)
    correction_1, sqrt_correction_2 = _one_minus_power(BETA_1, count), jnp.sqrt(_one_minus_power(BETA_2, count))
    rate, epsilon = learning_rate * sqrt_correction_2 / correction_1, EPSILON * sqrt_correction_2
    parameters = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + epsilon), parameters, mu, nu)
    return parameters, AdamState(count, mu, nu), norm


def _one_minus_power(base: float, exponent: Int[Array, ""]) -> Float[Array, ""]:
    """1 - bᵗ, without cancellation for b near 1."""
    return -jnp.expm1(exponent * log(base))
