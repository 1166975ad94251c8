"""Networks for vector observations."""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from trustax.errors import TrustaxError
from trustax.networks.layers import (
    ACTIVATIONS,
    Dense,
    Layer,
    LayerNorm,
    NormalizedDense,
    action_distribution,
    actor_gain,
    log_std_for,
)
from trustax.ops.distributions import Distribution
from trustax.types import Actions, EnvSpec

Hidden = Dense | NormalizedDense


def mlp(
    key: Key[Array, ""],
    spec: EnvSpec,
    *,
    hidden_sizes: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    layer_norm: bool = False,
    shared_torso: bool = False,
    initial_log_std: float = 0.0,
    initial_mean_scale: float = 1.0,
) -> "VectorActorCritic | SharedActorCritic":
    """The network `mlp`: perceptrons for actor and critic, or one with two linear heads if the torso is shared."""
    if spec.is_image:
        raise TrustaxError("the network 'mlp' takes vectors; choose 'nature' or 'impala' for images")
    actor_key, critic_key = jax.random.split(key)
    widths = (spec.observation_size, *hidden_sizes)
    gain = actor_gain(spec, initial_mean_scale)
    actor = _perceptron(actor_key, (*widths, spec.actions.num_outputs), gain, layer_norm)
    log_std = log_std_for(spec.actions, initial_log_std)
    if shared_torso:
        head = Dense.init(critic_key, widths[-1], 1, gain=1.0)
        return SharedActorCritic(actor[:-1], actor[-1], head, log_std, spec.actions, activation)
    critic = _perceptron(critic_key, (*widths, 1), sqrt(2), layer_norm)
    return VectorActorCritic(actor, critic, log_std, spec.actions, activation)


class VectorActorCritic(eqx.Module):
    """Two perceptrons, one for the actor and one for the critic; nothing is shared."""

    actor: tuple[Hidden, ...]
    critic: tuple[Hidden, ...]
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)
    activation: str = eqx.field(static=True, default="tanh")

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32).ravel()
        value = self._forward(self.critic, x)[0]
        return action_distribution(self.actions, self._forward(self.actor, x), self.log_std), value

    def _forward(self, layers: tuple[Layer, ...], x: Float[Array, " into"]) -> Float[Array, " out"]:
        return layers[-1](_hidden(layers[:-1], x, self.activation))


class SharedActorCritic(eqx.Module):
    """One perceptron with two linear heads."""

    torso: tuple[Hidden, ...]
    actor: Hidden
    critic: Dense
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)
    activation: str = eqx.field(static=True, default="tanh")

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = _hidden(self.torso, observation.astype(jnp.float32).ravel(), self.activation)
        return action_distribution(self.actions, self.actor(x), self.log_std), self.critic(x)[0]


def _perceptron(key: Key[Array, ""], widths: tuple[int, ...], head_gain: float, layer_norm: bool) -> tuple[Hidden, ...]:
    gains = [sqrt(2)] * (len(widths) - 2) + [head_gain]
    keys = jax.random.split(key, len(gains))
    dense = [
        Dense.init(k, into, out, gain) for k, into, out, gain in zip(keys, widths[:-1], widths[1:], gains, strict=True)
    ]
    if not layer_norm:
        return tuple(dense)
    hidden = [NormalizedDense(layer, LayerNorm.init(width)) for layer, width in zip(dense, widths[1:-1], strict=False)]
    return (*hidden, dense[-1])


def _hidden(layers: tuple[Layer, ...], x: Float[Array, " into"], activation: str) -> Float[Array, " out"]:
    for layer in layers:
        x = ACTIVATIONS[activation](layer(x))
    return x
