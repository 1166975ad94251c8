"""The attention network f_φ, which maps features of three policies to weights over the memory."""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


class Attention(eqx.Module):
    """One hidden layer of N ReLU units, then a softmax over the N ranks of the memory.

    The biases of a layer are its last row, so a layer is one array and a step of Adam takes two operations, not four.
    """

    hidden_layer: Float[Array, "context_and_bias slot"]
    output_layer: Float[Array, "slot_and_bias rank"]

    @classmethod
    def init(cls, key: Key[Array, ""], num_features: int, memory_size: int) -> "Attention":
        """Uniform in ±1/√fan_in: small, so that the initial attention is nearly uniform."""
        keys = jax.random.split(key)

        def layer(key: Key[Array, ""], fan_in: int) -> Array:
            bound = 1 / sqrt(fan_in)
            return jax.random.uniform(key, (fan_in + 1, memory_size), minval=-bound, maxval=bound)

        return cls(layer(keys[0], num_features), layer(keys[1], memory_size))

    def __call__(
        self, context: Float[Array, " context"], filled: Bool[Array, " rank"], dropout_mask: Float[Array, " slot"]
    ) -> Float[Array, " rank"]:
        """Weights that sum to 1 over the filled ranks and are exactly 0 elsewhere.

        `dropout_mask` multiplies the hidden units; without dropout it is all ones.
        """
        hidden = jax.nn.relu(_affine(context, self.hidden_layer)) * dropout_mask
        return jax.nn.softmax(_affine(hidden, self.output_layer), where=filled)


def _affine(x: Float[Array, " into"], layer: Float[Array, "into_and_bias out"]) -> Float[Array, " out"]:
    return jnp.append(x, 1.0) @ layer


def dropout_masks(key: Key[Array, ""], num_masks: int, size: int, rate: float) -> Float[Array, "mask slot"]:
    """Masks that are 0 with probability `rate` and otherwise 1/(1 - rate), so that their expectation is 1."""
    if rate == 0.0:
        return jnp.ones((num_masks, size))
    # Sampled as one long row: for many short rows the compiler generates many times as much code.
    mask = jax.random.bernoulli(key, 1 - rate, (num_masks * size,))
    return mask.reshape(num_masks, size) / (1 - rate)
