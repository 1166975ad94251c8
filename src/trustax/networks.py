"""Policies: an actor and a critic whose numbers all stand in one vector.

A `Policy` is a pytree with a single leaf, and it is callable: `policy(observation) -> (distribution, value)`. Because
all its numbers are one vector, a memory of policies is a matrix, a mixture of policies a matrix-vector product, and a
step of Adam one fused operation. Networks are written for one observation; batches come from `jax.vmap`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from trustax.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from trustax.types import Actions, BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

Layer = Callable[[Array], Array]
"""What a network is made of: `Dense` and `Conv`, or either with something put around it, as `trustax.kfac` does."""

SMALLEST_SIDE = 36
"""An image with fewer pixels in height or width leaves nothing after the convolutions."""


def orthogonal(key: Key[Array, ""], shape: tuple[int, int], gain: float) -> Float[Array, "row column"]:
    """A random matrix whose shorter side is orthonormal, times `gain`: Gram-Schmidt on normal numbers, done twice.

    `jax.nn.initializers.orthogonal` calls LAPACK, and several calls that are batched over seeds wait for each other's
    threads for ever once they are as many as the machine has cores (seen with jax 0.10.2 on two).
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


class VectorActorCritic(eqx.Module):
    """Two perceptrons with tanh units, one for the actor and one for the critic; nothing is shared."""

    actor: tuple[Dense, ...]
    critic: tuple[Dense, ...]
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)

    @classmethod
    def init(cls, key: Key[Array, ""], architecture: "Architecture") -> "VectorActorCritic":
        spec = architecture.spec
        actor_key, critic_key = jax.random.split(key)
        widths = (spec.observation_size, *architecture.hidden_sizes)
        actor = _perceptron(actor_key, (*widths, spec.actions.num_outputs), head_gain=_actor_gain(spec))
        critic = _perceptron(critic_key, (*widths, 1), head_gain=sqrt(2))
        return cls(actor, critic, _initial_log_std(architecture), spec.actions)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32).ravel()
        value = _forward(self.critic, x)[0]
        return _distribution(self.actions, _forward(self.actor, x), self.log_std), value


class ImageActorCritic(eqx.Module):
    """The convolutional torso of the Atari literature, shared by two linear heads."""

    torso: tuple[Conv, ...]
    hidden: Dense
    actor: Dense
    critic: Dense
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)
    channels_last: bool = eqx.field(static=True)

    @classmethod
    def init(cls, key: Key[Array, ""], architecture: "Architecture") -> "ImageActorCritic":
        """Its widths are the literature's; `hidden_sizes` does not change them."""
        spec = architecture.spec
        keys = jax.random.split(key, 6)
        channels_last = _channels_last(spec.observation_shape)
        channels, height, width = (spec.observation_shape[i] for i in ((2, 0, 1) if channels_last else (0, 1, 2)))
        torso = (
            Conv.init(keys[0], channels, 32, size=8, stride=4),
            Conv.init(keys[1], 32, 64, size=4, stride=2),
            Conv.init(keys[2], 64, 32, size=3, stride=1),
        )
        features = jax.eval_shape(lambda x: _convolve(torso, x), jnp.zeros((channels, height, width)))
        hidden = Dense.init(keys[3], prod(features.shape), 512, gain=sqrt(2))
        actor = Dense.init(keys[4], 512, spec.actions.num_outputs, gain=_actor_gain(spec))
        critic = Dense.init(keys[5], 512, 1, gain=1.0)
        return cls(torso, hidden, actor, critic, _initial_log_std(architecture), spec.actions, channels_last)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32) / 255
        x = jnp.moveaxis(x, -1, 0) if self.channels_last else x
        x = jax.nn.relu(self.hidden(_convolve(self.torso, x)))
        return _distribution(self.actions, self.actor(x), self.log_std), self.critic(x)[0]


@dataclass(frozen=True)
class Architecture:
    """What a network is, apart from its numbers; hashable, so that it can be static under `jit`."""

    spec: EnvSpec
    hidden_sizes: tuple[int, ...] = (64, 64)
    initial_log_std: float = 0.0

    def init(self, key: Key[Array, ""]) -> "Policy":
        return Policy(flatten(self._network(key)), self)

    def unflatten(self, parameters: Float[Array, " parameter"]) -> VectorActorCritic | ImageActorCritic:
        """The network whose numbers, one after another, are `parameters`."""
        shapes, structure = _layout(self)
        pieces = jax.lax.split(parameters, [prod(shape) for shape in shapes])
        leaves = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        return jax.tree.unflatten(structure, leaves)

    def _network(self, key: Key[Array, ""]) -> VectorActorCritic | ImageActorCritic:
        network = ImageActorCritic if self.spec.is_image else VectorActorCritic
        return network.init(key, self)


class Policy(eqx.Module):
    """π and V of one state: `policy(observation) -> (distribution, value)`.

    >>> spec = EnvSpec(observation_shape=(3,), actions=DiscreteActions(2))
    >>> policy = Architecture(spec).init(jax.random.key(0))
    >>> distribution, value = policy(jnp.zeros(3))
    >>> distribution.log_probs.shape, value.shape
    ((2,), ())
    """

    parameters: Float[Array, " parameter"]
    architecture: Architecture = eqx.field(static=True)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        return self.architecture.unflatten(self.parameters)(observation)

    def batch(self, observations: Shaped[Array, "batch ..."]) -> tuple[Distribution, Float[Array, " batch"]]:
        """The policy on a batch of observations."""
        return jax.vmap(self.architecture.unflatten(self.parameters))(observations)


def can_convolve(shape: tuple[int, ...]) -> bool:
    """Whether images of this shape are large enough for the convolutions.

    >>> can_convolve((4, 84, 84)), can_convolve((84, 84, 3)), can_convolve((7, 7, 3)), can_convolve((84, 84))
    (True, True, False, False)
    """
    return len(shape) == 3 and min(shape[:2] if _channels_last(shape) else shape[1:]) >= SMALLEST_SIDE


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[-1] < shape[0]


def flatten(tree: Any) -> Float[Array, " parameter"]:
    """All numbers of a pytree, leaf after leaf."""
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


@lru_cache
def _layout(architecture: Architecture) -> tuple[list[tuple[int, ...]], Any]:
    leaves, structure = jax.tree.flatten(jax.eval_shape(architecture._network, jax.random.key(0)))
    return [leaf.shape for leaf in leaves], structure


def _perceptron(key: Key[Array, ""], widths: tuple[int, ...], head_gain: float) -> tuple[Dense, ...]:
    gains = [sqrt(2)] * (len(widths) - 2) + [head_gain]
    keys = jax.random.split(key, len(gains))
    return tuple(
        Dense.init(k, into, out, gain) for k, into, out, gain in zip(keys, widths[:-1], widths[1:], gains, strict=True)
    )


def _forward(layers: tuple[Layer, ...], x: Float[Array, " into"]) -> Float[Array, " out"]:
    for layer in layers[:-1]:
        x = jnp.tanh(layer(x))
    return layers[-1](x)


def _convolve(layers: tuple[Layer, ...], x: Float[Array, "channel height width"]) -> Float[Array, " feature"]:
    for layer in layers:
        x = jax.nn.relu(layer(x))
    return x.ravel()


def _actor_gain(spec: EnvSpec) -> float:
    """Nearly uniform choices at the start; means of a Gaussian may start anywhere near 0."""
    return 1.0 if isinstance(spec.actions, BoxActions) else 0.01


def _initial_log_std(architecture: Architecture) -> Float[Array, " action"] | None:
    actions = architecture.spec.actions
    return jnp.full(actions.shape, architecture.initial_log_std) if isinstance(actions, BoxActions) else None


def _distribution(
    actions: Actions, outputs: Float[Array, " output"], log_std: Float[Array, " action"] | None
) -> Distribution:
    match actions:
        case DiscreteActions():
            return Categorical(outputs)
        case MultiDiscreteActions(counts=counts):
            return MultiCategorical.of(outputs, counts)
    assert log_std is not None
    return DiagonalGaussian(outputs, log_std)
