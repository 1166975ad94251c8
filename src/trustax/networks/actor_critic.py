"""Policies: an actor and a critic whose numbers all stand in one vector.

A `Policy` is a pytree with a single leaf, and it is callable: `policy(observation) -> (distribution, value)`. Because
all its numbers are one vector, a memory of policies is a matrix, a mixture of policies a matrix-vector product, and a
step of Adam one fused operation. Networks are written for one observation; batches come from `jax.vmap`.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from trustax.networks.cnn import ImageActorCritic
from trustax.networks.mlp import VectorActorCritic
from trustax.ops.distributions import Distribution
from trustax.types import EnvSpec


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
        if self.spec.is_image:
            return ImageActorCritic.init(key, self.spec, self.initial_log_std)
        return VectorActorCritic.init(key, self.spec, self.hidden_sizes, self.initial_log_std)


class Policy(eqx.Module):
    """π and V of one state: `policy(observation) -> (distribution, value)`.

    >>> from trustax.types import DiscreteActions
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


def flatten(tree: Any) -> Float[Array, " parameter"]:
    """All numbers of a pytree, leaf after leaf."""
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])


@lru_cache
def _layout(architecture: Architecture) -> tuple[list[tuple[int, ...]], Any]:
    leaves, structure = jax.tree.flatten(jax.eval_shape(architecture._network, jax.random.key(0)))
    return [leaf.shape for leaf in leaves], structure
