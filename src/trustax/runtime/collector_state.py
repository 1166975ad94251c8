"""`CollectorState`: normalizes experience for a learner, and tracks its episodes."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from trustax.ops.running_statistics import RunningStatistics
from trustax.runtime.episodes import FinishedEpisodes
from trustax.types import EnvSpec, TimeStep


@dataclass(frozen=True)
class Preprocessing:
    """The settings of preprocessing observations and rewards for a learner."""

    normalize_observations: bool = True
    normalize_rewards: bool = True
    bootstrap_truncation: bool = True
    discount: float = 0.99


class CollectorState(eqx.Module):
    """The state of one learner's experience collection."""

    observation_statistics: RunningStatistics | None
    return_statistics: RunningStatistics | None
    observation: Shaped[Array, "env ..."]
    """the current observation, preprocessed for the learner"""
    ended: Bool[Array, " env"]
    """whether the last step ended an episode, so that the next one only resets"""
    discounted_return: Float[Array, " env"]
    episode_return: Float[Array, " env"]
    episode_length: Int[Array, " env"]

    @classmethod
    def init(
        cls,
        observation: Shaped[Array, "env ..."],
        preprocessing: Preprocessing,
        spec: EnvSpec,
        statistics: RunningStatistics | None = None,
    ) -> "CollectorState":
        """The state after the first observations, with these statistics of earlier ones, if there are any."""
        normalized = preprocessing.normalize_observations and not spec.is_image
        return cls._start(
            statistics or RunningStatistics.init(spec.observation_shape) if normalized else None,
            RunningStatistics.init(()) if preprocessing.normalize_rewards else None,
            observation,
        )

    def restart(self, observation: Shaped[Array, "env ..."]) -> "CollectorState":
        """Start new episodes, and keep the statistics."""
        return self._start(self.observation_statistics, self.return_statistics, observation)

    @classmethod
    def _start(
        cls,
        observation_statistics: RunningStatistics | None,
        return_statistics: RunningStatistics | None,
        observation: Shaped[Array, "env ..."],
    ) -> "CollectorState":
        num_envs = observation.shape[0]
        statistics, normalized = update_and_normalize(observation_statistics, observation)
        return cls(
            observation_statistics=statistics,
            return_statistics=return_statistics,
            observation=normalized,
            ended=jnp.zeros(num_envs, bool),
            discounted_return=jnp.zeros(num_envs),
            episode_return=jnp.zeros(num_envs),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )


def update_and_normalize(
    statistics: RunningStatistics | None, observation: Shaped[Array, "env ..."]
) -> tuple[RunningStatistics | None, Shaped[Array, "env ..."]]:
    """Update the statistics with the observations, then normalize the observations."""
    if statistics is None:
        return None, observation
    statistics = statistics.update(observation, jnp.ones(observation.shape[0]))
    return statistics, statistics.standardize(observation)


class Step(eqx.Module):
    """One row of a rollout, without the action."""

    observation: Shaped[Array, "env ..."]
    reward: Float[Array, " env"]
    terminated: Bool[Array, " env"]
    truncated: Bool[Array, " env"]
    weight: Float[Array, " env"]
    episodes: FinishedEpisodes


def observe(observer: CollectorState, timestep: TimeStep, preprocessing: Preprocessing) -> tuple[CollectorState, Step]:
    """Preprocess a time step for the learner, and update the statistics and the episodes."""
    weight = (~observer.ended).astype(jnp.float32)
    ended, game_over = timestep.ended, timestep.reported_end
    episode_return = observer.episode_return + timestep.reported_reward
    episode_length = observer.episode_length + weight.astype(jnp.int32)
    discounted = preprocessing.discount * observer.discounted_return + timestep.reward

    return_statistics, reward = observer.return_statistics, timestep.reward
    if return_statistics is not None:
        return_statistics = return_statistics.update(discounted, weight)
        reward = return_statistics.scale(reward)
    statistics, observation = update_and_normalize(observer.observation_statistics, timestep.observation)

    step = Step(
        observation=observer.observation,
        reward=reward,
        terminated=timestep.terminated if preprocessing.bootstrap_truncation else ended,
        truncated=timestep.truncated,
        weight=weight,
        episodes=FinishedEpisodes(game_over, episode_return, episode_length, timestep.success),
    )
    observer = CollectorState(
        observation_statistics=statistics,
        return_statistics=return_statistics,
        observation=observation,
        ended=ended,
        discounted_return=discounted * ~ended,
        episode_return=episode_return * ~game_over,
        episode_length=episode_length * ~game_over,
    )
    return observer, step
