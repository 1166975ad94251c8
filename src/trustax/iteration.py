"""One iteration of training: collect a rollout, learn from it.

Randomness is addressed: the keys of an iteration follow from the seed and its number alone, so that neither the way
it is run, nor logging, nor resuming changes a result.
"""

import dataclasses
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from trustax.algorithms import Algorithm
from trustax.compilation import release_memory
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.episodes import EpisodeWindow, FinishedEpisodes
from trustax.placement import Placement
from trustax.rollout import HostCollector, collect
from trustax.run import Run
from trustax.seeds import over_seeds
from trustax.state import RunState, preprocessing_of
from trustax.types import Metrics, Progress, Rollout


class Seconds(NamedTuple):
    """Where the time of an iteration went."""

    collect: float
    learn: float
    environment: float | None
    """the part of collecting that the environments took, where they are stepped from Python and it can be told"""


class Iteration:
    """Collect, then learn: two programs, so that each runs where it is fastest, and is timed.

    What passes between them is the policies' numbers one way and the rollout the other, once an iteration.
    """

    def __init__(self, run: Run, environment: CompiledEnvironment | HostEnvironment) -> None:
        preprocessing = preprocessing_of(run)
        self._compiled = isinstance(environment, CompiledEnvironment)
        self.placement = Placement(run.num_seeds, collect_on_cpu=getattr(environment, "on_cpu", False))
        self._keys = jax.jit(partial(_collect_keys, run.horizon))
        self._learn = self.placement.learn(partial(_learn, run.algorithm), donate=(0, 1))
        self._collect: Any
        if isinstance(environment, CompiledEnvironment):
            collector = partial(collect, environment, preprocessing=preprocessing)
            self._collect = self.placement.collect(collector, donate=(1, 2))
        else:
            self._collect = HostCollector(environment, preprocessing)

    def compile(self, state: RunState) -> RunState:
        """Compile all that can be compiled before the first step; the state, on the devices where it belongs."""
        state = self._place(state)
        if self._compiled:
            traced = self._collect.lower(*self._collect_arguments(state))
            *_, rollout, finished = traced.out_info
            progress = Progress(state.iteration, state.iteration)
            lowered = self._learn.lower(state.learner, state.episodes, rollout, finished, state.keys, progress)
            self._learn = lowered.compile()  # the larger one first: a compiler's memory is the peak of a small run
            release_memory()
            self._collect = traced.compile()
            release_memory()
        return state

    def __call__(self, state: RunState, num_iterations: int) -> tuple[RunState, Metrics, Seconds]:
        """The next state, metrics with one value a seed, and where the time went."""
        began = time.perf_counter()
        observer, environment, rollout, finished = self._collect(*self._collect_arguments(state))
        jax.block_until_ready(rollout)
        collected = time.perf_counter()
        if self.placement.is_split:
            rollout, finished = jax.device_put((rollout, finished), self.placement.learners)
        progress = Progress(state.iteration, jnp.asarray(num_iterations, jnp.int32))
        learner, episodes, metrics = self._learn(state.learner, state.episodes, rollout, finished, state.keys, progress)
        jax.block_until_ready(metrics)
        learnt = time.perf_counter()
        state = dataclasses.replace(
            state,
            learner=learner,
            observer=observer,
            episodes=episodes,
            environment=environment,
            iteration=state.iteration + 1,
        )
        in_environment = None if self._compiled else self._collect.environment_seconds
        return state, metrics, Seconds(collected - began, learnt - collected, in_environment)

    def _collect_arguments(self, state: RunState) -> tuple[Any, ...]:
        policy, keys = state.learner.policy, self._keys(state.keys, state.iteration)
        if self.placement.is_split:
            policy, keys = jax.device_put((policy, keys), self.placement.environments)
        return policy, state.observer, state.environment, keys

    def _place(self, state: RunState) -> RunState:
        observer, environment = jax.device_put((state.observer, state.environment), self.placement.environments)
        learner, episodes, keys = jax.device_put((state.learner, state.episodes, state.keys), self.placement.learners)
        return dataclasses.replace(
            state, learner=learner, observer=observer, episodes=episodes, environment=environment, keys=keys
        )


def _collect_keys(horizon: int, keys: Key[Array, " seed"], iteration: Int[Array, ""]) -> Key[Array, "seed time"]:
    """One key a step."""
    return jax.vmap(lambda key: jax.random.split(_phase_keys(key, iteration)[0], horizon))(keys)


def _phase_keys(key: Key[Array, ""], iteration: Int[Array, ""]) -> Key[Array, "2"]:
    """What an iteration does at random, by name: collect, update."""
    return jax.random.split(jax.random.fold_in(key, iteration))


def _learn(
    algorithm: Algorithm,
    learner: Any,
    episodes: EpisodeWindow,
    rollout: Rollout,
    finished: FinishedEpisodes,
    keys: Key[Array, " seed"],
    progress: Progress,
) -> tuple[Any, EpisodeWindow, Metrics]:
    def update(learner: Any, rollout: Rollout, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        learner, metrics = algorithm.update(learner, rollout, progress, _phase_keys(key, progress.iteration)[1])
        return learner, {name: jnp.mean(value) for name, value in metrics.items()}

    learner, metrics = over_seeds(update)(learner, rollout, keys)
    episodes = over_seeds(EpisodeWindow.add)(episodes, finished)
    told = over_seeds(partial(_rollout_metrics, knows_success=finished.success is not None))(episodes, rollout)
    return learner, episodes, told | metrics


def _rollout_metrics(episodes: EpisodeWindow, rollout: Rollout, knows_success: bool) -> Metrics:
    def finite(values: Array) -> Float[Array, ""]:
        return jnp.all(jnp.isfinite(values)).astype(jnp.float32)

    success = {"rollout/success_rate": episodes.mean(episodes.successes)} if knows_success else {}
    return success | {
        "rollout/ep_rew_mean": episodes.mean(episodes.returns),
        "rollout/ep_len_mean": episodes.mean(episodes.lengths),
        "rollout/episodes": episodes.count.astype(jnp.float32),
        "finite/observation": finite(rollout.observation),
        "finite/reward": finite(rollout.reward),
    }
