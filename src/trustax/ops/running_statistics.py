"""Running statistics of observations and returns, as in Stable-Baselines3's `VecNormalize`.

They are part of the run state, so checkpoints include them. Numbers are float32, which cannot count beyond 2²⁴, so the
statistics are moving averages from `MEMORY` updates on: a sample that is this much older than another one has 1/e of
its weight. A mean beyond about 300 standard deviations stops moving late in a run: center such observations first.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from trustax.ops.transforms import sum_over_devices

LIMIT = 10.0
"""Normalized observations and rewards are clipped to ±LIMIT."""
MEMORY = 2**20
"""The largest number of updates that the statistics average over with equal weights."""


class RunningStatistics(eqx.Module):
    """Mean and variance of everything seen so far."""

    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]
    count: Float[Array, ""]

    @classmethod
    def init(cls, shape: tuple[int, ...]) -> "RunningStatistics":
        return cls(jnp.zeros(shape), jnp.ones(shape), jnp.array(1e-4, jnp.float32))

    def update(self, samples: Float[Array, " env *shape"], weight: Float[Array, " env"]) -> "RunningStatistics":
        """Merge in the rows of `samples` whose weight is 1, after Chan et al. (1983)."""
        rows = jnp.expand_dims(weight, tuple(range(1, samples.ndim)))
        sums = jnp.sum(weight), jnp.sum(rows * samples, axis=0), jnp.array(weight.size, jnp.float32)
        batch_count, batch_sum, batch_size = sum_over_devices(sums)
        divisor = jnp.maximum(batch_count, 1.0)
        batch_mean = batch_sum / divisor
        batch_squares = sum_over_devices(jnp.sum(rows * (samples - batch_mean[None]) ** 2, axis=0))
        total = self.count + batch_count
        old, new = self.count / total, batch_count / total
        shift = batch_mean - self.mean
        # A change of the old variance, because old + new is 1 only up to rounding, and that error would add up.
        change = new * (batch_squares / divisor + old * shift**2 - self.variance)
        count = jnp.minimum(total, MEMORY * batch_size)
        return RunningStatistics(self.mean + new * shift, self.variance + change, count)

    def standardize(self, samples: Float[Array, " env *shape"]) -> Float[Array, " env *shape"]:
        """clip((x - mean) / std)"""
        scaled = (samples - self.mean[None]) / jnp.sqrt(self.variance + 1e-8)[None]
        return jnp.clip(scaled, -LIMIT, LIMIT)

    def scale(self, samples: Float[Array, " env *shape"]) -> Float[Array, " env *shape"]:
        """clip(x / std), for rewards: their sign is preserved."""
        return jnp.clip(samples / jnp.sqrt(self.variance + 1e-8)[None], -LIMIT, LIMIT)
