"""Policies that see vectors."""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from trustax.networks.layers import Dense, Layer, action_distribution, actor_gain, log_std_for
from trustax.ops.distributions import Distribution
from trustax.types import Actions, EnvSpec


class VectorActorCritic(eqx.Module):
    """Two perceptrons with tanh units, one for the actor and one for the critic; nothing is shared."""

    actor: tuple[Dense, ...]
    critic: tuple[Dense, ...]
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)

    @classmethod
    def init(
        cls, key: Key[Array, ""], spec: EnvSpec, hidden_sizes: tuple[int, ...], initial_log_std: float
    ) -> "VectorActorCritic":
        actor_key, critic_key = jax.random.split(key)
        widths = (spec.observation_size, *hidden_sizes)
        actor = _perceptron(actor_key, (*widths, spec.actions.num_outputs), head_gain=actor_gain(spec))
        critic = _perceptron(critic_key, (*widths, 1), head_gain=sqrt(2))
        return cls(actor, critic, log_std_for(spec.actions, initial_log_std), spec.actions)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32).ravel()
        value = _forward(self.critic, x)[0]
        return action_distribution(self.actions, _forward(self.actor, x), self.log_std), value


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
