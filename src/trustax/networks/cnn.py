"""Networks for image observations."""

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from trustax.errors import TrustaxError
from trustax.networks.layers import Conv, Dense, Layer, action_distribution, actor_gain, log_std_for
from trustax.ops.distributions import Distribution
from trustax.types import Actions, EnvSpec

SMALLEST_SIDE = 36
"""An image with fewer pixels in height or width leaves nothing after the convolutions."""


Image = Float[Array, "_ _ _"]
"""channels, height, width, which each layer changes"""

Encoder = Callable[[tuple[Any, ...], Image], Float[Array, " feature"]]
"""Maps the layers of a torso and an image to features."""


def nature(key: Key[Array, ""], spec: EnvSpec, *, initial_log_std: float = 0.0) -> "ImageActorCritic":
    """The network `nature`, with the widths of the literature."""
    require_images("nature", spec)
    if not can_convolve(spec.observation_shape):
        raise TrustaxError(
            f"the network 'nature' takes images of at least {SMALLEST_SIDE} pixels a side, not the shape "
            f"{spec.observation_shape}; choose 'impala', or let the environment return floats"
        )
    first, second, third, *heads = jax.random.split(key, 6)
    torso = (
        Conv.init(first, num_channels(spec), 32, size=8, stride=4),
        Conv.init(second, 32, 64, size=4, stride=2),
        Conv.init(third, 64, 32, size=3, stride=1),
    )
    return ImageActorCritic.init(heads, spec, torso, _convolve, 512, initial_log_std)


class ImageActorCritic(eqx.Module):
    """A torso and a dense layer, shared by two linear heads."""

    torso: tuple[Any, ...]
    hidden: Dense
    actor: Dense
    critic: Dense
    log_std: Float[Array, " action"] | None
    actions: Actions = eqx.field(static=True)
    channels_last: bool = eqx.field(static=True)
    encode: Encoder = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        keys: Sequence[Key[Array, ""]],
        spec: EnvSpec,
        torso: tuple[Any, ...],
        encode: Encoder,
        width: int,
        initial_log_std: float,
    ) -> "ImageActorCritic":
        """Add a dense layer of some width and the heads to a torso; each of the three has its own key."""
        channels_last = has_channels_last(spec.observation_shape)
        sides = spec.observation_shape[:2] if channels_last else spec.observation_shape[1:]
        features = jax.eval_shape(lambda x: encode(torso, x), jnp.zeros((num_channels(spec), *sides)))
        hidden = Dense.init(keys[0], prod(features.shape), width, gain=sqrt(2))
        actor = Dense.init(keys[1], width, spec.actions.num_outputs, gain=actor_gain(spec))
        critic = Dense.init(keys[2], width, 1, gain=1.0)
        log_std = log_std_for(spec.actions, initial_log_std)
        return cls(torso, hidden, actor, critic, log_std, spec.actions, channels_last, encode)

    def __call__(self, observation: Shaped[Array, "..."]) -> tuple[Distribution, Float[Array, ""]]:
        x = observation.astype(jnp.float32) / 255
        x = jnp.moveaxis(x, -1, 0) if self.channels_last else x
        x = jax.nn.relu(self.hidden(self.encode(self.torso, x)))
        return action_distribution(self.actions, self.actor(x), self.log_std), self.critic(x)[0]


def num_channels(spec: EnvSpec) -> int:
    return spec.observation_shape[-1 if has_channels_last(spec.observation_shape) else 0]


def can_convolve(shape: tuple[int, ...]) -> bool:
    """Whether images of this shape are large enough for the convolutions.

    >>> can_convolve((4, 84, 84)), can_convolve((84, 84, 3)), can_convolve((7, 7, 3)), can_convolve((84, 84))
    (True, True, False, False)
    """
    return len(shape) == 3 and min(shape[:2] if has_channels_last(shape) else shape[1:]) >= SMALLEST_SIDE


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether the last axis of an image is that of its channels; else the first one is."""
    return shape[-1] < shape[0]


def require_images(network: str, spec: EnvSpec) -> None:
    """Raise an error if observations are not images."""
    if not spec.is_image:
        raise TrustaxError(
            f"the network {network!r} takes images (uint8, three axes), not {spec.observation_dtype} of shape "
            f"{spec.observation_shape}; choose 'mlp'"
        )


def _convolve(layers: tuple[Layer, ...], x: Image) -> Float[Array, " feature"]:
    for layer in layers:
        x = jax.nn.relu(layer(x))
    return x.ravel()
