"""Action distributions, for one state or, with leading axes, for a batch of states.

`p.kl(q)` is the exact KL(p‖q) of two distributions of the same class. All methods reduce over the last axis only, so
the same code handles one action, a minibatch and a rollout.
"""

import math
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_SERIES_RADIUS = 0.2
_PADDING_LOGIT = -1e9
"""the logit of a padding choice: its probability is 0, but the logit is finite, so that no 0·∞ can arise"""


def _excess_near_zero(x: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
    """eˣ - 1 - x = x²/2 (1 + x/3 (1 + x/4 (…))) for |x| below _SERIES_RADIUS, in float32 precision; else finite."""
    x = jnp.clip(x, -_SERIES_RADIUS, _SERIES_RADIUS)
    series = jnp.ones_like(x)
    for divisor in (7, 6, 5, 4, 3):
        series = 1 + x / divisor * series
    return 0.5 * x**2 * series


class Categorical(eqx.Module):
    """A choice among `action` options with unnormalized log-probabilities `logits`.

    >>> Categorical(jnp.log(jnp.array([0.25, 0.75]))).mode()
    Array(1, dtype=int32)
    """

    logits: Float[Array, "*batch action"]

    @property
    def log_probs(self) -> Float[Array, "*batch action"]:
        return jax.nn.log_softmax(self.logits)

    def noise(self, key: Key[Array, ""]) -> Float[Array, "*batch action"]:
        """Draw the random part of a sample. It depends only on the shape, so it can be drawn in advance."""
        return jax.random.gumbel(key, self.logits.shape)

    def choose(self, noise: Float[Array, "*batch action"]) -> Int[Array, "*batch"]:
        """Turn noise into a sample."""
        return jnp.argmax(self.logits + noise, axis=-1)

    def sample(self, key: Key[Array, ""]) -> Int[Array, "*batch"]:
        return self.choose(self.noise(key))

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """log p(a), by a one-hot product: for small action sets it is much cheaper than a gather and its scatter."""
        chosen = jax.nn.one_hot(action, self.logits.shape[-1], dtype=self.logits.dtype)
        return jnp.sum(chosen * self.log_probs, axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """H(p) = -Σₐ p(a) log p(a)"""
        return -jnp.sum(jnp.exp(self.log_probs) * self.log_probs, axis=-1)

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        """KL(p‖q) = Σₐ p(a) (log p(a) - log q(a)) = Σₐ p(a) (eʳ - 1 - r) with r = log q(a) - log p(a).

        The second form has no terms of opposite sign that cancel: trust regions compare distances as small as 1e-7,
        where the first form is rounding noise and may even be negative.
        """
        log_ratio = other.log_probs - self.log_probs
        p, q = jnp.exp(self.log_probs), jnp.exp(other.log_probs)
        is_small = jnp.abs(log_ratio) < _SERIES_RADIUS
        return jnp.sum(jnp.where(is_small, p * _excess_near_zero(log_ratio), q - p - p * log_ratio), axis=-1)

    def mode(self) -> Int[Array, "*batch"]:
        return jnp.argmax(self.logits, axis=-1)


class MultiCategorical(eqx.Module):
    """Independent choices, one for each part of the action.

    Log-probabilities, entropies and divergences are summed over the parts. Parts with fewer choices are padded with
    choices of probability 0, so that all parts form one `Categorical`.

    >>> p = MultiCategorical.of(jnp.log(jnp.array([0.5, 0.5, 0.2, 0.7, 0.1])), counts=(2, 3))
    >>> float(jnp.exp(p.log_prob(jnp.array([0, 1])))).__round__(3)  # 0.5 · 0.7
    0.35
    """

    parts: Categorical

    @classmethod
    def of(cls, logits: Float[Array, "*batch choice"], counts: tuple[int, ...]) -> "MultiCategorical":
        """Build the distribution from the concatenated logits of all parts."""
        pieces = jnp.split(logits, list(accumulate(counts))[:-1], axis=-1)
        unpadded = [(0, 0)] * (logits.ndim - 1)
        padded = [
            jnp.pad(piece, [*unpadded, (0, max(counts) - count)], constant_values=_PADDING_LOGIT)
            for piece, count in zip(pieces, counts, strict=True)
        ]
        return cls(Categorical(jnp.stack(padded, axis=-2)))

    def noise(self, key: Key[Array, ""]) -> Float[Array, "*batch part action"]:
        return self.parts.noise(key)

    def choose(self, noise: Float[Array, "*batch part action"]) -> Int[Array, "*batch part"]:
        return self.parts.choose(noise)

    def sample(self, key: Key[Array, ""]) -> Int[Array, "*batch part"]:
        return self.choose(self.noise(key))

    def log_prob(self, action: Int[Array, "*batch part"]) -> Float[Array, "*batch"]:
        return jnp.sum(self.parts.log_prob(action), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        return jnp.sum(self.parts.entropy(), axis=-1)

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        return jnp.sum(self.parts.kl(other.parts), axis=-1)

    def mode(self) -> Int[Array, "*batch part"]:
        return self.parts.mode()


class DiagonalGaussian(eqx.Module):
    """Independent normal distributions, one for each dimension of the action.

    >>> p = DiagonalGaussian(mean=jnp.zeros(2), log_std=jnp.zeros(2))
    >>> q = DiagonalGaussian(mean=jnp.ones(2), log_std=jnp.zeros(2))
    >>> float(p.kl(q))
    1.0
    """

    mean: Float[Array, "*batch action"]
    log_std: Float[Array, "*batch action"]

    def noise(self, key: Key[Array, ""]) -> Float[Array, "*batch action"]:
        return jax.random.normal(key, self.mean.shape)

    def choose(self, noise: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        return self.mean + jnp.exp(self.log_std) * noise

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*batch action"]:
        return self.choose(self.noise(key))

    def log_prob(self, action: Float[Array, "*batch action"]) -> Float[Array, "*batch"]:
        """log p(a) = -Σ_d [(a-μ)²/2σ² + log σ + ½ log 2π]"""
        standardized = (action - self.mean) * jnp.exp(-self.log_std)
        return -jnp.sum(0.5 * standardized**2 + self.log_std + _HALF_LOG_2PI, axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """H(p) = Σ_d [log σ + ½ log 2πe]"""
        return jnp.sum(self.log_std + 0.5 + _HALF_LOG_2PI, axis=-1)

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        """KL(p‖q) = Σ_d [log σ_q - log σ_p + (σ_p² + (μ_p - μ_q)²) / 2σ_q² - ½]

        With u = log σ_p - log σ_q the variance part is ½(e²ᵘ - 1 - 2u), whose terms cancel when σ_p and σ_q are close.
        """
        two_u = 2 * (self.log_std - other.log_std)
        is_small = jnp.abs(two_u) < _SERIES_RADIUS
        spread = jnp.where(is_small, _excess_near_zero(two_u), jnp.expm1(two_u) - two_u)
        offset = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return 0.5 * jnp.sum(spread + offset**2, axis=-1)

    def mode(self) -> Float[Array, "*batch action"]:
        return self.mean


Distribution = Categorical | MultiCategorical | DiagonalGaussian
