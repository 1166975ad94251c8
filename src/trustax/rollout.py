"""Collect experience, on the device or from Python; one `Rollout` either way.

Between the environments and a learner stands an `Observer`: it normalizes what the learner sees and counts what the
user wants to know, the raw returns. It is part of the run state.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped, UInt32

from trustax.envs.base import CompiledEnvironment, EnvState, HostEnvironment
from trustax.episodes import FinishedEpisodes
from trustax.loops import each_by_itself, steps_in_a_turn
from trustax.networks import Policy
from trustax.normalize import RunningStatistics
from trustax.seeds import over_seeds
from trustax.types import EnvSpec, Rollout, TimeStep


@dataclass(frozen=True)
class Preprocessing:
    """How experience is turned into what a learner sees."""

    normalize_observations: bool = True
    normalize_rewards: bool = True
    bootstrap_truncation: bool = True
    discount: float = 0.99


class Observer(eqx.Module):
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
    def init(cls, observation: Shaped[Array, "env ..."], preprocessing: Preprocessing, spec: EnvSpec) -> "Observer":
        """Nothing is known yet but the first observations."""
        normalized = preprocessing.normalize_observations and not spec.is_image
        return cls._begin(
            RunningStatistics.init(spec.observation_shape) if normalized else None,
            RunningStatistics.init(()) if preprocessing.normalize_rewards else None,
            observation,
        )

    def restart(self, observation: Shaped[Array, "env ..."]) -> "Observer":
        """New episodes under the old statistics."""
        return self._begin(self.observation_statistics, self.return_statistics, observation)

    @classmethod
    def _begin(
        cls,
        observation_statistics: RunningStatistics | None,
        return_statistics: RunningStatistics | None,
        observation: Shaped[Array, "env ..."],
    ) -> "Observer":
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


def observe(observer: Observer, timestep: TimeStep, preprocessing: Preprocessing) -> tuple[Observer, Step]:
    """Take in what the environments returned."""
    weight = (~observer.ended).astype(jnp.float32)
    ended = timestep.terminated | timestep.truncated
    over = ended if timestep.over is None else timestep.over
    episode_return = observer.episode_return + (timestep.reward if timestep.score is None else timestep.score)
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
    observer = Observer(
        observation_statistics=statistics,
        return_statistics=return_statistics,
        observation=observation,
        ended=ended,
        discounted_return=discounted * ~ended,
        episode_return=episode_return * ~over,
        episode_length=episode_length * ~over,
    )
    return observer, step


def act(policy: Policy, observation: Shaped[Array, "env ..."], key: Key[Array, ""]) -> Array:
    """Sample an action for each environment."""
    distribution, _ = policy.batch(observation)
    return distribution.sample(key)


def collect(
    environment: CompiledEnvironment,
    policies: Policy,
    observer: Observer,
    state: EnvState,
    keys: Key[Array, "seed time"],
    preprocessing: Preprocessing,
) -> tuple[Observer, EnvState, Rollout, FinishedEpisodes]:
    """Steps of a compiled environment, for every seed at once; traced as part of an iteration."""

    # All that chance decides is drawn before the loop, in bulk: in it, drawing would cost more than acting.
    noise = over_seeds(_noise)(policies, observer.observation, keys)
    state, starts = environment.draw_starts(state, keys.shape[1])

    def step(carry: tuple[Observer, EnvState], chance: tuple[Array, Any]) -> tuple[Any, Any]:
        (observer, state), (noise, starts) = each_by_itself(carry), chance
        action = over_seeds(_choose_by)(policies, observer.observation, noise)
        state, timestep = environment.step(state, environment.spec.actions.for_environment(action), starts)
        observer, row = over_seeds(partial(observe, preprocessing=preprocessing))(observer, timestep)
        return (observer, state), (row, action)

    chance = jnp.swapaxes(noise, 0, 1), starts
    # A step is so little work that the loop itself is felt, on a CPU too.
    turn = steps_in_a_turn(on_cpu=4, on_gpu=4 if environment.on_cpu else 16)
    (observer, state), (rows, actions) = jax.lax.scan(step, (observer, state), chance, unroll=turn)
    return observer, state, *_assemble(rows, actions, observer)


def _noise(policy: Policy, observation: Shaped[Array, "env ..."], keys: Key[Array, " time"]) -> Float[Array, "..."]:
    distribution, _ = jax.eval_shape(policy.batch, observation)
    return jax.vmap(distribution.noise)(keys)


def _choose_by(policy: Policy, observation: Shaped[Array, "env ..."], noise: Float[Array, "..."]) -> Array:
    distribution, _ = policy.batch(observation)
    return distribution.choose(noise)


class HostCollector:
    """Steps of a host environment: one compiled call and one step of the environments, in turn.

    What the environments return is kept as it came and observed once more, as a whole, when the rollout is complete:
    so the rollout reaches the device in one transfer, and no device array is fetched but the actions.
    """

    def __init__(self, environment: HostEnvironment, preprocessing: Preprocessing) -> None:
        self._environment = environment
        self._choose = jax.jit(partial(_choose, environment.spec.actions.for_environment))
        self._observe_and_choose = jax.jit(
            partial(_observe_and_choose, environment.spec.actions.for_environment, preprocessing)
        )
        self._replay = jax.jit(partial(_replay, preprocessing=preprocessing))
        self.environment_seconds = 0.0
        """time that the environments took in the last rollout"""

    def __call__(
        self, policies: Policy, observer: Observer, state: None, keys: Key[Array, "seed time"]
    ) -> tuple[Observer, None, Rollout, FinishedEpisodes]:
        start, timesteps, actions = observer, [], []
        self.environment_seconds = 0.0
        rows = np.asarray(jax.random.key_data(keys)).swapaxes(0, 1)
        action, for_environment = self._choose(policies, observer, rows[0])
        for row in [*rows[1:], None]:
            timestep = self._step(np.asarray(for_environment))
            timesteps.append(timestep)
            actions.append(np.asarray(action))
            if row is not None:
                seen = timestep._replace(score=None, over=None, success=None)
                observer, action, for_environment = self._observe_and_choose(policies, observer, seen, row)
        return self._replay(start, _stacked(timesteps), np.stack(actions))

    def _step(self, action: np.ndarray) -> TimeStep:
        began = time.perf_counter()
        timestep = self._environment.step(action)
        self.environment_seconds += time.perf_counter() - began
        return timestep


def _stacked(timesteps: list[TimeStep]) -> TimeStep:
    """The rows as arrays; a field that some rows lack (a success that is told at endings alone) is zero there."""

    def stack(*rows: Any) -> np.ndarray | None:
        present = [row for row in rows if row is not None]
        return np.stack([np.zeros_like(present[0]) if row is None else row for row in rows]) if present else None

    return TimeStep(*map(stack, *timesteps))


def _choose(
    for_environment: Callable[[Array], Array], policies: Policy, observer: Observer, keys: UInt32[Array, "seed data"]
) -> tuple[Array, Array]:
    action = over_seeds(act)(policies, observer.observation, jax.random.wrap_key_data(keys))
    return action, for_environment(action)


def _observe_and_choose(
    for_environment: Callable[[Array], Array],
    preprocessing: Preprocessing,
    policies: Policy,
    observer: Observer,
    timestep: TimeStep,
    keys: UInt32[Array, "seed data"],
) -> tuple[Observer, Array, Array]:
    observer, _ = over_seeds(partial(observe, preprocessing=preprocessing))(observer, timestep)
    return observer, *_choose(for_environment, policies, observer, keys)


def _replay(
    observer: Observer,
    timesteps: TimeStep,
    actions: Shaped[Array, "time seed env ..."],
    preprocessing: Preprocessing,
) -> tuple[Observer, None, Rollout, FinishedEpisodes]:
    observer, rows = jax.lax.scan(over_seeds(partial(observe, preprocessing=preprocessing)), observer, timesteps)
    return observer, None, *_assemble(rows, actions, observer)


def _assemble(
    rows: Step, actions: Shaped[Array, "time seed env ..."], observer: Observer
) -> tuple[Rollout, FinishedEpisodes]:
    """The rows of all seeds as rollouts, one a seed; the observation that stands at the end is the last row."""
    rows, actions = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (rows, actions))
    return Rollout(
        observation=jnp.concatenate([rows.observation, observer.observation[:, None]], axis=1),
        action=actions,
        reward=rows.reward,
        terminated=rows.terminated,
        truncated=rows.truncated,
        weight=rows.weight,
    ), rows.episodes
