"""The residual network of IMPALA, for images.

Espeholt et al.: IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures. ICML 2018.
arXiv:1802.01561
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.networks.cnn import Image, ImageActorCritic, num_channels, require_images
from trustax.networks.layers import Conv
from trustax.types import EnvSpec

CHANNELS = (16, 32, 32)
FEATURES = 256


def impala(key: Key[Array, ""], spec: EnvSpec, *, initial_log_std: float = 0.0) -> ImageActorCritic:
    """The network `impala`, with the widths of the paper."""
    require_images("impala", spec)
    *keys, hidden_key, actor_key, critic_key = jax.random.split(key, len(CHANNELS) + 3)
    widths = (num_channels(spec), *CHANNELS)
    stages = zip(keys, widths[:-1], widths[1:], strict=True)
    torso = tuple(Stage.init(k, into, out) for k, into, out in stages)
    return ImageActorCritic.init((hidden_key, actor_key, critic_key), spec, torso, _encode, FEATURES, initial_log_std)


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


def _encode(stages: tuple[Stage, ...], x: Image) -> Float[Array, " feature"]:
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
