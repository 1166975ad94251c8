"""What an adaptive β_max follows: a KL divergence of old and new policy for each iteration, and its own bounds.

The paper's β_max is constant. No constant does well on all tasks (docs/fidelity.md), so `MCPO()` doubles or halves it
after an iteration whose divergence was far from the target.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from trustax.algorithms.batch import Batch, count_samples, is_continuous

LIMITS = 0.1, 100.0
"""Bounds of an adaptive β_max, unless it starts outside of them."""
REFERENCE_BATCH_SIZE = 8192
"""With more samples than this in a batch, the KL target grows."""


def kl_target_of(batch: Batch, target: float, growth: float, action_growth: float) -> Float[Array, ""] | float:
    """The KL target of an iteration.

    Large batches have a larger one, because their gradients are less noisy. So do actions of several dimensions,
    because the divergence is a sum over them.
    """
    target = target * _num_action_dimensions(batch) ** action_growth
    return target * jnp.maximum(count_samples(batch) / REFERENCE_BATCH_SIZE, 1) ** growth if growth else target


def limits_of(
    kl_cost_min: Float[Array, ""] | float, kl_cost_max: Float[Array, ""] | float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The bounds of an adaptive β_max, which contain its initial value; the lower one is not below β_min."""
    low, high = LIMITS
    return jnp.maximum(jnp.minimum(low, kl_cost_max), kl_cost_min), jnp.maximum(high, kl_cost_max)


def _num_action_dimensions(batch: Batch) -> int:
    """The length of a box action, 1 for discrete actions."""
    return batch.action.shape[-1] if is_continuous(batch) else 1
