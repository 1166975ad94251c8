"""Advantages of rollouts without a reward.

Where rewards are rare, most rollouts have none. Their advantages are errors of the critic, and standardization would
make them as large as those of a rollout with a reward: the policy would drift at random and stop exploring before it
has found anything. Instead, they keep their size relative to the last rollout with a reward, whose influence fades.
"""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from trustax.algorithms.batch import Batch
from trustax.ops.objectives import EPSILON, expectation
from trustax.ops.transforms import sum_over_devices
from trustax.types import Rollout

FADING = 0.97
"""In each rollout without a reward, the last standard deviation with a reward is multiplied by this."""


def has_reward(rollout: Rollout) -> Bool[Array, ""]:
    """Whether any transition of the rollout has a reward other than 0."""
    return sum_over_devices(jnp.sum(rollout.weight * (rollout.reward != 0))) > 0


def scale_unrewarded(
    batch: Batch, rewarded: Bool[Array, ""], precision: Float[Array, ""]
) -> tuple[Batch, Float[Array, ""]]:
    """Multiply the standardized advantages of a batch without a reward by min(1, std · precision).

    `precision` is 1 / std of the last batch with a reward, and 0 before the first one: all advantages are 0 then. Also
    returns the precision for the next batch.
    """
    advantage = batch.value_target - batch.old_value
    mean = expectation(advantage, batch.weight)
    deviation = jnp.sqrt(expectation((advantage - mean) ** 2, batch.weight)) + EPSILON
    factor = jnp.where(rewarded, 1.0, jnp.minimum(deviation * precision, 1.0))
    precision = jnp.where(rewarded, 1 / deviation, precision / FADING)
    return replace(batch, advantage=factor * batch.advantage), jnp.minimum(precision, 1 / EPSILON)
