"""Between the environments and a learner: what is normalized, and what is counted of the episodes."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from trustax.ops.running_statistics import RunningStatistics
from trustax.runtime.episodes import FinishedEpisodes
from trustax.types import EnvSpec, TimeStep


@dataclass(frozen=True)
class Preprocessing:
    """How experience is turned into what a learner sees."""

    normalize_observations: bool = True
    normalize_rewards: bool = True
    bootstrap_truncation: bool = True
    discount: float = 0.99


class CollectorState(eqx.Module):
    """One learner's view of its environments."""

    observation_statistics: RunningStatistics | None
    return_statistics: RunningStatistics | None
    observation: Shaped[Array, "env ..."]
    """as the learner sees it"""
    ended: Bool[Array, " env"]
    """whether the last step ended an episode, so that the next one only resets"""
    discounted_return: Float[Array, " env"]
    episode_return: Float[Array, " env"]
    episode_length: Int[Array, " env"]

    @classmethod
    def init(
        cls, observation: Shaped[Array, "env ..."], preprocessing: Preprocessing, spec: EnvSpec
    ) -> "CollectorState":
        """Nothing is known yet but the first observations."""
        normalized = preprocessing.normalize_observations and not spec.is_image
        return cls._begin(
            RunningStatistics.init(spec.observation_shape) if normalized else None,
            RunningStatistics.init(()) if preprocessing.normalize_rewards else None,
            observation,
        )

    def restart(self, observation: Shaped[Array, "env ..."]) -> "CollectorState":
        """New episodes under the old statistics."""
        return self._begin(self.observation_statistics, self.return_statistics, observation)

    @classmethod
    def _begin(
        cls,
        observation_statistics: RunningStatistics | None,
        return_statistics: RunningStatistics | None,
        observation: Shaped[Array, "env ..."],
    ) -> "CollectorState":
        num_envs = observation.shape[0]
        statistics, seen = see(observation_statistics, observation)
        return cls(
            observation_statistics=statistics,
            return_statistics=return_statistics,
            observation=seen,
            ended=jnp.zeros(num_envs, bool),
            discounted_return=jnp.zeros(num_envs),
            episode_return=jnp.zeros(num_envs),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )


def see(
    statistics: RunningStatistics | None, observation: Shaped[Array, "env ..."]
) -> tuple[RunningStatistics | None, Shaped[Array, "env ..."]]:
    """Take the observations into the statistics, then normalize them by these."""
    if statistics is None:
        return None, observation
    statistics = statistics.update(observation, jnp.ones(observation.shape[0]))
    return statistics, statistics.standardize(observation)


class Step(eqx.Module):
    """One row of a rollout, but for the action."""

    observation: Shaped[Array, "env ..."]
    reward: Float[Array, " env"]
    terminated: Bool[Array, " env"]
    truncated: Bool[Array, " env"]
    weight: Float[Array, " env"]
    episodes: FinishedEpisodes


def observe(observer: CollectorState, timestep: TimeStep, preprocessing: Preprocessing) -> tuple[CollectorState, Step]:
    """Take in what the environments returned."""
    weight = (~observer.ended).astype(jnp.float32)
    ended = timestep.terminated | timestep.truncated
    over = ended if timestep.game_over is None else timestep.game_over
    episode_return = observer.episode_return + (timestep.reward if timestep.raw_reward is None else timestep.raw_reward)
    episode_length = observer.episode_length + weight.astype(jnp.int32)
    discounted = preprocessing.discount * observer.discounted_return + timestep.reward

    return_statistics, reward = observer.return_statistics, timestep.reward
    if return_statistics is not None:
        return_statistics = return_statistics.update(discounted, weight)
        reward = return_statistics.scale(reward)
    statistics, observation = see(observer.observation_statistics, timestep.observation)

    step = Step(
        observation=observer.observation,
        reward=reward,
        terminated=timestep.terminated if preprocessing.bootstrap_truncation else ended,
        truncated=timestep.truncated,
        weight=weight,
        episodes=FinishedEpisodes(over, episode_return, episode_length, timestep.success),
    )
    observer = CollectorState(
        observation_statistics=statistics,
        return_statistics=return_statistics,
        observation=observation,
        ended=ended,
        discounted_return=discounted * ~ended,
        episode_return=episode_return * ~over,
        episode_length=episode_length * ~over,
    )
    return observer, step
