"""The attention network f_φ: from what is known of three policies to weights over the memory."""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


class Attention(eqx.Module):
    """One hidden layer of N rectified units, then a softmax over the N ranks of the memory."""

    hidden_weight: Float[Array, "context slot"]
    hidden_bias: Float[Array, " slot"]
    output_weight: Float[Array, "slot rank"]
    output_bias: Float[Array, " rank"]

    @classmethod
    def init(cls, key: Key[Array, ""], num_features: int, memory_size: int) -> "Attention":
        """Uniform in ±1/√fan_in: small, so that attention starts out nearly even."""
        keys = jax.random.split(key, 4)

        def uniform(key: Key[Array, ""], shape: tuple[int, ...], fan_in: int) -> Array:
            return jax.random.uniform(key, shape, minval=-1 / sqrt(fan_in), maxval=1 / sqrt(fan_in))

        return cls(
            uniform(keys[0], (num_features, memory_size), num_features),
            uniform(keys[1], (memory_size,), num_features),
            uniform(keys[2], (memory_size, memory_size), memory_size),
            uniform(keys[3], (memory_size,), memory_size),
        )

    def __call__(
        self, context: Float[Array, " context"], filled: Bool[Array, " rank"], kept: Float[Array, " slot"]
    ) -> Float[Array, " rank"]:
        """Weights that sum to 1 over the filled ranks and are exactly 0 elsewhere.

        `kept` multiplies the hidden units: a dropout mask while training, ones otherwise.
        """
        hidden = jax.nn.relu(context @ self.hidden_weight + self.hidden_bias) * kept
        logits = hidden @ self.output_weight + self.output_bias
        return jax.nn.softmax(logits, where=filled)


def dropout_mask(key: Key[Array, ""], size: int, rate: float) -> Float[Array, " slot"]:
    """Zero with probability `rate`, else 1/(1 - rate), so that the expectation is 1."""
    if rate == 0.0:
        return jnp.ones(size)
    return jax.random.bernoulli(key, 1 - rate, (size,)) / (1 - rate)
