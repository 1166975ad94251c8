"""Natural-gradient steps in a trust region: Fisher-vector products, conjugate gradients, a backtracking line search.

For a small step s the divergence is a quadratic form, KL(π_θ‖π_θ₊ₛ) ≈ ½ sᵀF s, and the step of steepest ascent for a
gradient g within KL ≤ δ is the natural gradient F⁻¹g, scaled to that length. F is never formed: all functions here work
on flat vectors and use F only through its products with them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from trustax.ops.distributions import Distribution
from trustax.ops.objectives import mean_kl

Vector = Float[Array, " parameter"]
Scalar = Float[Array, ""]
Product = Callable[[Vector], Vector]

MIN_GAIN = 0.1
"""An accepted step achieves at least this fraction of the improvement that the gradient predicts."""


def fisher_product(
    distribution_of: Callable[[Vector], Distribution],
    parameters: Vector,
    weight: Float[Array, " batch"],
    damping: Float[Array, ""] | float,
) -> Product:
    """v ↦ F v + λ v with F = ∇²_θ Ê[KL(sg(π_θ)‖π_θ)] = Jᵀ M J, the Fisher information of a policy on a batch.

    `distribution_of` maps parameters to the policy's distributions on that batch, J is its derivative and M the second
    derivative of the mean KL with respect to the distributions. The other term of ∇²_θ contains the first derivative
    of the KL, which is zero where both policies are equal. Without that term the product takes half the time of a
    derivative of the gradient, and it cannot have negative curvature.

    >>> from trustax.ops.distributions import Categorical
    >>> coin = lambda logit: Categorical(jnp.stack([logit, -logit], axis=-1))
    >>> product = fisher_product(coin, jnp.zeros(1), weight=jnp.ones(1), damping=0.5)
    >>> product(jnp.ones(1))  # F is 4 p (1-p) = 1
    Array([1.5], dtype=float32)
    """

    def product(vector: Vector) -> Vector:
        distribution, tangent = jax.jvp(distribution_of, (parameters,), (vector,))
        gradient = jax.grad(lambda new: mean_kl(distribution, new, weight))
        _, cotangent = jax.jvp(gradient, (distribution,), (tangent,))
        _, transpose = jax.vjp(distribution_of, parameters)
        return transpose(cotangent)[0] + damping * vector

    return product


def conjugate_gradient(product: Product, target: Vector, num_iterations: int, tolerance: float = 1e-20) -> Vector:
    """x ≈ F⁻¹b for a positive definite F, from x = 0 (Hestenes, Stiefel 1952).

        α = rᵀr / pᵀF p,   x ← x + α p,   r ← r - α F p,   p ← r + (r'ᵀr' / rᵀr) p

    x stays as it is once ‖r‖² is below the tolerance (from the start if the target is zero), or once rounding errors
    produce a direction without positive curvature. All iterations run in any case, so the tolerance only has to
    detect a residual of zero: a larger one would leave an error of √tolerance / λ and save nothing.

    >>> conjugate_gradient(lambda v: jnp.array([2.0, 4.0]) * v, jnp.ones(2), num_iterations=2).round(5)
    Array([0.5 , 0.25], dtype=float32)
    """

    def iterate(_: Any, carry: tuple[Vector, Vector, Vector, Scalar]) -> tuple[Vector, Vector, Vector, Scalar]:
        x, residual, direction, squared = carry
        image = product(direction)
        curvature = direction @ image
        active = (squared >= tolerance) & (curvature > 0)
        alpha = squared / jnp.where(active, curvature, 1.0)
        new_residual = residual - alpha * image
        new_squared = new_residual @ new_residual
        new_direction = new_residual + new_squared / jnp.where(active, squared, 1.0) * direction
        new = (x + alpha * direction, new_residual, new_direction, new_squared)
        return jax.tree.map(lambda a, b: jnp.where(active, a, b), new, carry)

    start = (jnp.zeros_like(target), target, target, target @ target)
    return jax.lax.fori_loop(0, num_iterations, iterate, start)[0]


def step_to_boundary(direction: Vector, product: Product, kl_target: Float[Array, ""] | float) -> Vector:
    """√(2δ / xᵀF x) x: the direction, scaled to the boundary ½ sᵀF s = δ; zero if it has no curvature.

    >>> step_to_boundary(jnp.array([3.0, 0.0]), lambda v: v, kl_target=0.5)
    Array([1., 0.], dtype=float32)
    """
    curvature = direction @ product(direction)
    has_curvature = curvature > 0
    return jnp.where(has_curvature, jnp.sqrt(2 * kl_target / jnp.where(has_curvature, curvature, 1.0)), 0.0) * direction


class LineSearch(NamedTuple):
    """The result of a line search."""

    parameters: Vector
    fraction: Scalar
    """the fraction of the full step that was taken; 0 if no step was accepted"""


def line_search(
    measure: Callable[[Vector], tuple[Scalar, Scalar]],
    parameters: Vector,
    step: Vector,
    expected: Scalar,
    kl_limit: Float[Array, ""] | float,
    num_steps: int,
) -> LineSearch:
    """θ + f s for the first f of 1, ½, ¼, … with gain > 0, gain > 0.1 f gᵀs and KL ≤ kl_limit, or θ itself.

    `measure` returns the gain and the KL divergence of new parameters relative to the old; `expected` is gᵀs, the gain
    of a full step that the gradient predicts. Steps with values that are not finite are rejected.

    >>> def measure(x):  # the slope predicts a gain of 4, but the curve bends down
    ...     return 4 * x[0] - 5 * x[0] ** 2, x[0] ** 2
    >>> line_search(measure, jnp.zeros(1), jnp.ones(1), jnp.array(4.0), kl_limit=1.0, num_steps=10)
    LineSearch(parameters=Array([0.5], dtype=float32), fraction=Array(0.5, dtype=float32))
    """

    shortest = 0.5**num_steps

    def searching(carry: tuple[Scalar, Bool[Array, ""]]) -> Bool[Array, ""]:
        fraction, accepted = carry
        return ~accepted & (fraction > shortest)

    def attempt(carry: tuple[Scalar, Bool[Array, ""]]) -> tuple[Scalar, Bool[Array, ""]]:
        fraction, _ = carry
        gain, kl = measure(parameters + fraction * step)
        accepted = (gain > 0) & (gain > MIN_GAIN * fraction * expected) & (kl <= kl_limit)
        return jnp.where(accepted, fraction, fraction / 2), accepted

    fraction, accepted = jax.lax.while_loop(searching, attempt, (jnp.ones(()), jnp.array(False)))
    return LineSearch(
        parameters=jnp.where(accepted, parameters + fraction * step, parameters),
        fraction=jnp.where(accepted, fraction, 0.0),
    )
