"""The last 100 finished episodes, whose mean return is `rollout/ep_rew_mean`."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

WINDOW = 100


class FinishedEpisodes(eqx.Module):
    """Raw returns and lengths of episodes, valid only where `ended` is True."""

    ended: Bool[Array, "*time env"]
    episode_return: Float[Array, "*time env"]
    length: Int[Array, "*time env"]
    success: Bool[Array, "*time env"] | None = None
    """whether the goal was reached; None if the environment does not report success"""


class EpisodeWindow(eqx.Module):
    """A ring buffer of the last episodes, in the order in which they ended."""

    returns: Float[Array, " window"]
    lengths: Float[Array, " window"]
    successes: Float[Array, " window"]
    count: Int[Array, ""]

    @classmethod
    def init(cls) -> "EpisodeWindow":
        return cls(jnp.zeros(WINDOW), jnp.zeros(WINDOW), jnp.zeros(WINDOW), jnp.zeros((), jnp.int32))

    def add(self, episodes: FinishedEpisodes) -> "EpisodeWindow":
        """Add the episodes of one rollout, `time env`."""
        ended = episodes.ended.ravel()
        order = jnp.cumsum(ended) - 1
        total = jnp.sum(ended, dtype=jnp.int32)  # as the count, also with 64-bit numbers enabled in JAX
        # If more episodes ended than fit, only the newest are written: the others would use the same slots.
        is_written = ended & (order >= total - WINDOW)
        slot = jnp.where(is_written, (self.count + order) % WINDOW, WINDOW)

        def write(ring: Float[Array, " window"], values: Array) -> Float[Array, " window"]:
            return ring.at[slot].set(values.ravel().astype(jnp.float32), mode="drop")

        success = jnp.zeros_like(ended) if episodes.success is None else episodes.success
        return EpisodeWindow(
            write(self.returns, episodes.episode_return),
            write(self.lengths, episodes.length),
            write(self.successes, success),
            self.count + total,
        )

    def mean(self, values: Float[Array, " window"]) -> Float[Array, ""]:
        """The mean over the episodes in the window; NaN before the first episode has ended."""
        size = jnp.minimum(self.count, WINDOW)
        return jnp.sum(jnp.where(jnp.arange(WINDOW) < size, values, 0.0)) / jnp.where(size, size, jnp.nan)
