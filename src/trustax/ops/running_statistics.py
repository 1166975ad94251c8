"""Running statistics of observations and returns, as in Stable-Baselines3's `VecNormalize`.

They are part of the run state, so checkpoints include them. Sums are float32: after about 1e8 samples, further samples
change the statistics no more than rounding does. By then the statistics should have converged.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from trustax.ops.transforms import sum_over_devices

LIMIT = 10.0
"""Normalized observations and rewards are clipped to ±LIMIT."""


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
        batch_count, batch_sum = sum_over_devices((jnp.sum(weight), jnp.sum(rows * samples, axis=0)))
        batch_mean = batch_sum / jnp.maximum(batch_count, 1.0)
        batch_squares = sum_over_devices(jnp.sum(rows * (samples - batch_mean[None]) ** 2, axis=0))
        total = self.count + batch_count
        shift = batch_mean - self.mean
        mean = self.mean + shift * (batch_count / total)
        squares = self.variance * self.count + batch_squares + shift**2 * (self.count * batch_count / total)
        return RunningStatistics(mean, squares / total, total)

    def standardize(self, samples: Float[Array, " env *shape"]) -> Float[Array, " env *shape"]:
        """clip((x - mean) / std)"""
        scaled = (samples - self.mean[None]) / jnp.sqrt(self.variance + 1e-8)[None]
        return jnp.clip(scaled, -LIMIT, LIMIT)

    def scale(self, samples: Float[Array, " env *shape"]) -> Float[Array, " env *shape"]:
        """clip(x / std), for rewards: their sign is preserved."""
        return jnp.clip(samples / jnp.sqrt(self.variance + 1e-8)[None], -LIMIT, LIMIT)
