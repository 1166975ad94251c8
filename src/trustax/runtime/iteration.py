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
import numpy as np
from jaxtyping import Array, Float, Int, Key

from trustax.algorithms import Algorithm
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.ops.metrics import MetricRow, means
from trustax.ops.transforms import over_seeds
from trustax.run import Run
from trustax.runtime.collect import HostCollector, collect
from trustax.runtime.compilation import release_memory, without_garbage_collection
from trustax.runtime.devices import Placement
from trustax.runtime.episodes import EpisodeWindow, FinishedEpisodes
from trustax.runtime.state import RunState, learner_values, preprocessing_of
from trustax.settings import with_values
from trustax.types import Metrics, Progress, Rollout


class Seconds(NamedTuple):
    """Where the time of an iteration went."""

    collect: float
    learn: float
    environment: float | None
    """the time in the environments, where they are stepped from Python; else None"""


class Iteration:
    """Collect, tell of it, learn from it: programs apart, so that each runs where it is fastest, and is timed.

    What passes to the learners is the rollout, and from them the policies' numbers, once an iteration.
    """

    def __init__(self, run: Run, environment: CompiledEnvironment | HostEnvironment) -> None:
        preprocessing = preprocessing_of(run)
        self._compiled = isinstance(environment, CompiledEnvironment)
        self.placement = Placement(run.num_seeds, collect_on_cpu=getattr(environment, "on_cpu", False))
        self._values = jax.device_put(learner_values(run), self.placement.learners)
        self._keys = jax.jit(partial(_keys, run.horizon))
        self._learn = self.placement.learn(partial(_learn, run.algorithm), donate=(0,))
        self._log_rollout = self.placement.collect(_log_rollout, donate=(0,))
        self._collect: Any
        if isinstance(environment, CompiledEnvironment):
            collector = partial(collect, environment, preprocessing=preprocessing)
            self._collect = self.placement.collect(collector, donate=(1, 2))
        else:
            self._collect = HostCollector(environment, preprocessing)

    def compile(self, state: RunState) -> RunState:
        """Compile all that can be compiled before the first step; the state, placed."""
        state = self.place(state)
        if not self._compiled:
            return state
        with without_garbage_collection():
            collect_keys, learn_keys = self._keys(state.keys, state.iteration)
            traced = self._collect.trace(*self._collect_arguments(state, collect_keys))
            *_, rollout, finished = traced.out_info
            progress = Progress(state.iteration, state.iteration)
            # The largest one first: a compiler's memory is the peak of a small run.
            self._learn = self._learn.lower(state.learner, rollout, learn_keys, self._values, progress).compile()
            release_memory()
            self._collect = traced.lower().compile()
            self._log_rollout = self._log_rollout.lower(state.episodes, rollout, finished).compile()
            release_memory()
        return state

    def __call__(self, state: RunState, num_iterations: int) -> tuple[RunState, dict[str, np.ndarray], Seconds]:
        """The next state, metrics with one value a seed, and where the time went."""
        began = time.perf_counter()
        collect_keys, learn_keys = self._keys(state.keys, state.iteration)
        observer, environment, rollout, finished = self._collect(*self._collect_arguments(state, collect_keys))
        jax.block_until_ready(rollout)
        collected = time.perf_counter()
        episodes, rollout_row = self._log_rollout(state.episodes, rollout, finished)
        if self.placement.is_split:
            rollout = jax.device_put(rollout, self.placement.learners)
        progress = Progress(state.iteration, jnp.asarray(num_iterations, jnp.int32))
        learner, update_row = self._learn(state.learner, rollout, learn_keys, self._values, progress)
        metrics = _on_host(rollout_row) | _on_host(update_row)
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

    def _collect_arguments(self, state: RunState, keys: Key[Array, "seed time"]) -> tuple[Any, ...]:
        policy = state.learner.policy
        if self.placement.is_split:
            policy, keys = jax.device_put((policy, keys), self.placement.environments)
        return policy, state.observer, state.environment, keys

    def place(self, state: RunState) -> RunState:
        """The state, on the devices where it belongs."""
        collecting = state.observer, state.episodes, state.environment
        observer, episodes, environment = jax.device_put(collecting, self.placement.environments)
        learner, keys = jax.device_put((state.learner, state.keys), self.placement.learners)
        return dataclasses.replace(
            state, learner=learner, observer=observer, episodes=episodes, environment=environment, keys=keys
        )


def _keys(
    horizon: int, keys: Key[Array, " seed"], iteration: Int[Array, ""]
) -> tuple[Key[Array, "seed time"], Key[Array, " seed"]]:
    """All chance of an iteration: a key for each step of collecting, and one for learning."""

    def of_seed(key: Key[Array, ""]) -> tuple[Key[Array, " time"], Key[Array, ""]]:
        collect, learn = jax.random.split(jax.random.fold_in(key, iteration))
        return jax.random.split(collect, horizon), learn

    return jax.vmap(of_seed)(keys)


def _log_rollout(
    episodes: EpisodeWindow, rollout: Rollout, finished: FinishedEpisodes
) -> tuple[EpisodeWindow, MetricRow]:
    """Take in the episodes that ended, and what a user wants to know of the rollout."""

    def of_seed(
        episodes: EpisodeWindow, rollout: Rollout, finished: FinishedEpisodes
    ) -> tuple[EpisodeWindow, MetricRow]:
        episodes = episodes.add(finished)
        return episodes, MetricRow.of(_rollout_metrics(episodes, rollout, knows_success=finished.success is not None))

    return over_seeds(of_seed)(episodes, rollout, finished)


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


def _learn(
    algorithm: Algorithm,
    learner: Any,
    rollout: Rollout,
    keys: Key[Array, " seed"],
    values: dict[str, Float[Array, " seed"]],
    progress: Progress,
) -> tuple[Any, MetricRow]:
    def of_seed(learner: Any, rollout: Rollout, key: Key[Array, ""], own: dict[str, Any]) -> tuple[Any, MetricRow]:
        learner, metrics = with_values(algorithm, own).update(learner, rollout, progress, key)
        return learner, means(metrics)

    return over_seeds(of_seed)(learner, rollout, keys, values)


def _on_host(row: MetricRow) -> dict[str, np.ndarray]:
    """Each metric of all seeds."""
    return dict(zip(row.names, np.asarray(row.values).T, strict=True))
