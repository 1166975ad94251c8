"""Policies: an actor and a critic whose parameters are one vector.

A `Policy` is a pytree with a single leaf, and it is callable: `policy(observation) -> (distribution, value)`. Because
all its numbers are one vector, a memory of policies is a matrix, a mixture of policies a matrix-vector product, and a
step of Adam one fused operation. Networks are written for one observation; batches come from `jax.vmap`.
"""

from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

from trustax.errors import TrustaxError
from trustax.networks.layers import action_distribution, default_log_std
from trustax.networks.registry import build, factory_of
from trustax.ops.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from trustax.types import EnvSpec


@dataclass(frozen=True)
class Architecture:
    """The structure of a network without its parameters; hashable, so that it can be static under `jit`."""

    spec: EnvSpec
    hidden_sizes: tuple[int, ...] = (64, 64)
    initial_log_std: float | Literal["auto"] = "auto"
    network: str = "auto"
    activation: str = "tanh"
    layer_norm: bool = False
    shared_torso: bool = False
    initial_mean_scale: float = 1.0

    def init(self, key: Key[Array, ""]) -> "Policy":
        return Policy(flatten(self._network(key)), self)

    def unflatten(self, parameters: Float[Array, " parameter"]) -> Any:
        """The network with these parameters, a vector of all its arrays one after another."""
        shapes, structure, static = _layout(self, factory_of(self.network, self.spec))
        pieces = jax.lax.split(parameters, [prod(shape) for shape in shapes])
        leaves = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        return eqx.combine(jax.tree.unflatten(structure, leaves), static)

    def critic_mask(self) -> np.ndarray:
        """Which parameters are those of the critic: of the field `critic` of the network, if it has one.

        >>> from trustax.types import DiscreteActions
        >>> mask = Architecture(EnvSpec((3,), DiscreteActions(2)), hidden_sizes=(4,)).critic_mask()
        >>> mask.size, int(mask.sum())
        (47, 21)
        """
        shapes, structure, _ = _layout(self, factory_of(self.network, self.spec))
        numbered = jax.tree.unflatten(structure, range(len(shapes)))
        critic = set(jax.tree.leaves(critic_of(numbered)))
        return np.concatenate([np.full(prod(shape), index in critic) for index, shape in enumerate(shapes)])

    def settings(self) -> dict[str, Any]:
        """The arguments of the network's factory, except the environment's spec."""
        names = [field.name for field in fields(self) if field.name not in ("spec", "network")]
        values = {name: getattr(self, name) for name in names}
        if self.initial_log_std == "auto":
            values["initial_log_std"] = default_log_std(self.spec.actions)
        return values

    def _network(self, key: Key[Array, ""]) -> Any:
        return build(self.network, key, self.spec, self.settings(), defaults=Architecture(self.spec).settings())


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

    def without_critic(self) -> "Policy":
        """The policy with the parameters of its critic left out, to be stored."""
        return Policy(self.parameters[np.flatnonzero(~self.architecture.critic_mask())], self.architecture)

    def with_zero_critic(self) -> "Policy":
        """The inverse of `without_critic`, with zeros in place of the critic."""
        mask = self.architecture.critic_mask()
        parameters = jnp.zeros(mask.size, self.parameters.dtype).at[np.flatnonzero(~mask)].set(self.parameters)
        return Policy(parameters, self.architecture)


def critic_of(network: Any) -> Any:
    """The field `critic` of a network; None if it has none. A method of that name would hold the whole network."""
    names = [field.name for field in fields(network)] if is_dataclass(network) else []
    return network.critic if "critic" in names else None


def flatten(tree: Any) -> Float[Array, " parameter"]:
    """All numbers of a pytree, leaf after leaf; functions and other leaves that are not arrays are left out."""
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))])


@lru_cache
def _layout(architecture: Architecture, factory: Any) -> tuple[list[tuple[int, ...]], Any, Any]:
    """The shapes of a network's arrays, their structure, and the rest of the network.

    The factory is part of the cache's key: another one may be registered under the same name.
    """
    network = eqx.filter_eval_shape(architecture._network, jax.random.key(0))
    arrays, static = eqx.partition(network, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    leaves, structure = jax.tree.flatten(arrays)
    _require_network(architecture, network, leaves)
    return [leaf.shape for leaf in leaves], structure, static


def _require_network(architecture: Architecture, network: Any, leaves: list[jax.ShapeDtypeStruct]) -> None:
    """Raise an error if an object is not a network as defined by `trustax.networks.registry.Factory`."""
    name, spec = architecture.network, architecture.spec
    if not callable(network) or not leaves:
        raise TrustaxError(f"the network {name!r} must be a callable module with arrays, its parameters")
    expected = jnp.zeros(()).dtype  # float32, unless the user enables 64 bits
    if others := sorted({str(leaf.dtype) for leaf in leaves if leaf.dtype != expected}):
        raise TrustaxError(
            f"the network {name!r} has arrays of {' and '.join(others)}; its parameters must be {expected}, and it may "
            "cast them when it is called"
        )
    seen = jax.ShapeDtypeStruct(spec.observation_shape, spec.observation_dtype)
    output = eqx.filter_eval_shape(lambda network, x: network(x), network, seen)
    match output:
        case (Categorical() | MultiCategorical() | DiagonalGaussian() as found, jax.ShapeDtypeStruct(shape=())):
            outputs = jax.ShapeDtypeStruct((spec.actions.num_outputs,), jnp.float32)
            needed = jax.eval_shape(lambda x: action_distribution(spec.actions, x, x), outputs)
            if _described(found) != _described(needed):
                raise TrustaxError(
                    f"the network {name!r} returns {_described(found)}, but the environment's actions need "
                    f"{_described(needed)}"
                )
            if others := sorted({str(leaf.dtype) for leaf in jax.tree.leaves(output) if leaf.dtype != expected}):
                raise TrustaxError(
                    f"the network {name!r} returns numbers of {' and '.join(others)}; cast its outputs to {expected}"
                )
            return
    raise TrustaxError(f"the network {name!r} must return a distribution and a value without axes, not {output}")


def _described(distribution: Distribution) -> str:
    """The kind of a distribution and the shapes of its arrays: Categorical (4,)."""
    shapes = [str(leaf.shape) for leaf in jax.tree.leaves(distribution)]
    return " ".join([type(distribution).__name__, *shapes])
