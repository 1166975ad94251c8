"""The last hundred finished episodes: what `rollout/ep_rew_mean` is the mean of."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

WINDOW = 100


class FinishedEpisodes(eqx.Module):
    """Raw returns and lengths where an episode ended; elsewhere the numbers mean nothing."""

    ended: Bool[Array, "*time env"]
    episode_return: Float[Array, "*time env"]
    length: Int[Array, "*time env"]
    success: Bool[Array, "*time env"] | None = None
    """whether the goal was reached; None where the environment knows no goal"""


class EpisodeWindow(eqx.Module):
    """A ring of the newest episodes, in the order in which they ended."""

    returns: Float[Array, " window"]
    lengths: Float[Array, " window"]
    successes: Float[Array, " window"]
    count: Int[Array, ""]

    @classmethod
    def init(cls) -> "EpisodeWindow":
        return cls(jnp.zeros(WINDOW), jnp.zeros(WINDOW), jnp.zeros(WINDOW), jnp.zeros((), jnp.int32))

    def add(self, episodes: FinishedEpisodes) -> "EpisodeWindow":
        """Put the episodes of one rollout, `time env`, into the ring."""
        ended = episodes.ended.ravel()
        order = jnp.cumsum(ended) - 1
        total = jnp.sum(ended)
        # Of more episodes than fit only the newest count; the others would meet them in the same place.
        fresh = ended & (order >= total - WINDOW)
        place = jnp.where(fresh, (self.count + order) % WINDOW, WINDOW)

        def put(ring: Float[Array, " window"], values: Array) -> Float[Array, " window"]:
            return ring.at[place].set(values.ravel().astype(jnp.float32), mode="drop")

        success = jnp.zeros_like(ended) if episodes.success is None else episodes.success
        return EpisodeWindow(
            put(self.returns, episodes.episode_return),
            put(self.lengths, episodes.length),
            put(self.successes, success),
            self.count + total,
        )

    def mean(self, values: Float[Array, " window"]) -> Float[Array, ""]:
        """The mean over the episodes seen, NaN before the first."""
        size = jnp.minimum(self.count, WINDOW)
        return jnp.sum(jnp.where(jnp.arange(WINDOW) < size, values, 0.0)) / jnp.where(size, size, jnp.nan)
