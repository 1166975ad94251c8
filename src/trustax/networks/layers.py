"""Dense and convolutional layers with orthogonal weights, and the heads of a policy."""

from collections.abc import Callable
from math import log, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from trustax.ops.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from trustax.types import Actions, BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

Layer = Callable[[Array], Array]
"""A layer of a network: `Dense`, `Conv`, or a wrapper of one of them, as in `trustax.ops.kfac`."""


ACTIVATIONS: dict[str, Layer] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
}
"""Activations by their names in settings."""


def orthogonal(key: Key[Array, ""], shape: tuple[int, int], gain: float) -> Float[Array, "row column"]:
    """A random matrix whose shorter side is orthonormal, times `gain`: Gram-Schmidt on normal numbers, done twice.

    `jax.nn.initializers.orthogonal` calls LAPACK, and calls that are batched over seeds deadlock when there are as
    many of them as cores (seen with jax 0.10.2 on two cores).
    """
    longer, shorter = max(shape), min(shape)
    gaussian = jax.random.normal(key, (longer, shorter))

    def add_column(index: Int[Array, ""] | int, basis: Float[Array, "long short"]) -> Float[Array, "long short"]:
        column = gaussian[:, index]
        for _ in range(2):  # once leaves rounding errors, twice is enough
            column = column - basis @ (basis.T @ column)
        return basis.at[:, index].set(column / jnp.linalg.norm(column))

    basis = jax.lax.fori_loop(0, shorter, add_column, jnp.zeros_like(gaussian))
    return gain * (basis if shape == basis.shape else basis.T)


class Dense(eqx.Module):
    """y = x W + b"""

    weight: Float[Array, "into out"]
    bias: Float[Array, " out"]

    @classmethod
    def init(cls, key: Key[Array, ""], into: int, out: int, gain: float) -> "Dense":
        return cls(orthogonal(key, (into, out), gain), jnp.zeros(out))

    def __call__(self, x: Float[Array, " into"]) -> Float[Array, " out"]:
        return x @ self.weight + self.bias


class LayerNorm(eqx.Module):
    """Standardizes a vector, then scales and shifts each feature (Ba, Kiros, Hinton 2016)."""

    scale: Float[Array, " feature"]
    bias: Float[Array, " feature"]

    @classmethod
    def init(cls, size: int) -> "LayerNorm":
        return cls(jnp.ones(size), jnp.zeros(size))

    def __call__(self, x: Float[Array, " feature"]) -> Float[Array, " feature"]:
        centered = x - jnp.mean(x)
        return self.scale * centered * jax.lax.rsqrt(jnp.mean(centered**2) + 1e-5) + self.bias


class NormalizedDense(eqx.Module):
    """A dense layer with layer normalization of its output."""

    dense: Dense
    norm: LayerNorm

    def __call__(self, x: Float[Array, " into"]) -> Float[Array, " out"]:
        return self.norm(self.dense(x))


class Conv(eqx.Module):
    """A 2-D convolution without padding."""

    kernel: Float[Array, "out into height width"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)

    @classmethod
    def init(cls, key: Key[Array, ""], into: int, out: int, size: int, stride: int) -> "Conv":
        kernel = orthogonal(key, (out, into * size * size), gain=sqrt(2))
        return cls(kernel.reshape(out, into, size, size), jnp.zeros(out), stride)

    def __call__(self, x: Float[Array, "into height width"]) -> Float[Array, "out height2 width2"]:
        # XLA's own convolution is thirty times slower than this on a CPU, inside a loop.
        by_products = jax.default_backend() == "cpu"
        y = self._products(x) if by_products else self._convolution(x)
        return y + self.bias[:, None, None]

    def _convolution(self, x: Float[Array, "into height width"]) -> Float[Array, "out height2 width2"]:
        return jax.lax.conv(x[None], self.kernel, (self.stride, self.stride), "VALID")[0]

    def _products(self, x: Float[Array, "into height width"]) -> Float[Array, "out height2 width2"]:
        """The same as one matrix product: a column for each place of the kernel, with all that it covers there."""
        out, into, size, _ = self.kernel.shape
        height, width = ((side - size) // self.stride + 1 for side in x.shape[1:])
        rows, columns = (slice(0, self.stride * (count - 1) + 1, self.stride) for count in (height, width))
        covered = jnp.stack([x[:, i:, j:][:, rows, columns] for i in range(size) for j in range(size)], axis=1)
        y = self.kernel.reshape(out, -1) @ covered.reshape(into * size**2, height * width)
        return y.reshape(out, height, width)


def actor_gain(spec: EnvSpec, mean_scale: float = 1.0) -> float:
    """The gain of the actor's last layer: `mean_scale` for box actions, 0.01 for nearly uniform choices otherwise."""
    return mean_scale if isinstance(spec.actions, BoxActions) else 0.01


def default_log_std(actions: Actions) -> float:
    """The initial log σ with which the noise of all actions together has the size that one action has with σ = 1.

    With σ = 1 for each of d actions, their noise together has a size of √d. On HalfCheetah (d = 6), most seeds then
    stay below a return of 2,000.

    >>> from trustax.types import BoxActions
    >>> round(default_log_std(BoxActions(low=(-1.0,) * 4, high=(1.0,) * 4)), 3)
    -0.693
    """
    return -0.5 * log(len(actions.low)) if isinstance(actions, BoxActions) else 0.0


def log_std_for(actions: Actions, initial: float) -> Float[Array, " action"] | None:
    """The log standard deviations of a Gaussian policy, one parameter each; None for discrete actions."""
    return jnp.full(actions.shape, initial) if isinstance(actions, BoxActions) else None


def action_distribution(
    actions: Actions, outputs: Float[Array, " output"], log_std: Float[Array, " action"] | None
) -> Distribution:
    match actions:
        case DiscreteActions():
            return Categorical(outputs)
        case MultiDiscreteActions(counts=counts):
            return MultiCategorical.of(outputs, counts)
    assert log_std is not None
    return DiagonalGaussian(outputs, log_std)
