"""The residual network of IMPALA, for images.

Espeholt et al.: IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures. ICML 2018.
arXiv:1802.01561
"""

from math import prod, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from trustax.networks.cnn import has_channels_last, require_images
from trustax.networks.layers import Conv, Dense, action_distribution, actor_gain, log_std_for
from trustax.ops.distributions import Distribution
from trustax.types import Actions, EnvSpec

CHANNELS = (16, 32, 32)
FEATURES = 256

Image = Float[Array, "_ _ _"]
"""channels, height, width, which each operation changes"""


def impala(
    key: Key[Array, ""], spec: EnvSpec, *, hidden_sizes: tuple[int, ...] = (64, 64), initial_log_std: float = 0.0
) -> "ImpalaActorCritic":
    """The network `impala`; it has the widths of the paper, whatever `hidden_sizes` says."""
    require_images("impala", spec)
    return ImpalaActorCritic.init(key, spec, initial_log_std)


class Stage(eqx.Module):
    """A convolution, a max pooling that halves the image, and two residual blocks of two convolutions each."""

    conv: Conv
    blocks: tuple[tuple[Conv, Conv], ...]

    @classmethod
    def init(cls, key: Key[Array, ""], into: int, out: int) -> "Stage":
        first, *others = jax.random.split(key, 5)
        convs = [Conv.init(k, out, out, size=3, stride=1) for k in others]
        return cls(Conv.init(first, into, out, size=3, stride=1), ((convs[0], convs[1]), (convs[2], convs[3])))

    def __call__(self, x: Image) -> Image:
        x = _halved(self.conv(_padded(x)))
        for first, second in self.blocks:
            x = x + second(_padded(jax.nn.relu(first(_padded(jax.nn.relu(x))))))
        return x


class ImpalaActorCritic(eqx.Module):
    """Three stages and a dense layer, shared by two linear heads."""

    torso: tuple[Stage, ...]
    hidden: Dense
    actor: Dense
    critic: Dense
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)
    channels_last: bool = eqx.field(static=True)

    @classmethod
    def init(cls, key: Key[Array, ""], spec: EnvSpec, initial_log_std: float) -> "ImpalaActorCritic":
        *keys, hidden_key, actor_key, critic_key = jax.random.split(key, len(CHANNELS) + 3)
        channels_last = has_channels_last(spec.observation_shape)
        channels, height, width = (spec.observation_shape[i] for i in ((2, 0, 1) if channels_last else (0, 1, 2)))
        widths = (channels, *CHANNELS)
        stages = zip(keys, widths[:-1], widths[1:], strict=True)
        torso = tuple(Stage.init(k, into, out) for k, into, out in stages)
        features = jax.eval_shape(lambda x: _encoded(torso, x), jnp.zeros((channels, height, width)))
        hidden = Dense.init(hidden_key, prod(features.shape), FEATURES, gain=sqrt(2))
        actor = Dense.init(actor_key, FEATURES, spec.actions.num_outputs, gain=actor_gain(spec))
        critic = Dense.init(critic_key, FEATURES, 1, gain=1.0)
        log_std = log_std_for(spec.actions, initial_log_std)
        return cls(torso, hidden, actor, critic, log_std, spec.actions, channels_last)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32) / 255
        x = jnp.moveaxis(x, -1, 0) if self.channels_last else x
        x = jax.nn.relu(self.hidden(_encoded(self.torso, x)))
        return action_distribution(self.actions, self.actor(x), self.log_std), self.critic(x)[0]


def _encoded(stages: tuple[Stage, ...], x: Image) -> Float[Array, " feature"]:
    for stage in stages:
        x = stage(x)
    return jax.nn.relu(x).ravel()


def _padded(x: Image) -> Image:
    """One pixel of zeros on every side, so that a 3x3 convolution keeps the size."""
    return jnp.pad(x, ((0, 0), (1, 1), (1, 1)))


def _halved(x: Image) -> Image:
    """Max pooling over 3x3 pixels with stride 2."""
    window, strides = (1, 3, 3), (1, 2, 2)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, "SAME")
