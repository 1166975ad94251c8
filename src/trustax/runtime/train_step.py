"""The step of one iteration: collect a rollout, then learn from it.

Keys are derived only from the seed and the number of the iteration, so results do not depend on the devices, on logging
or on resuming.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from trustax.algorithms import Algorithm
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.errors import TrustaxError, similar_or_all
from trustax.ops.metrics import RETURN, SUCCESS, MetricRow, means
from trustax.ops.running_statistics import RunningStatistics
from trustax.ops.transforms import all_over_devices, gather_environments, over_seeds
from trustax.run import Run
from trustax.runtime.collect import HostCollector, collect
from trustax.runtime.compilation import release_memory, without_garbage_collection
from trustax.runtime.divergence import skip_if_not_finite
from trustax.runtime.env_shards import placement_of
from trustax.runtime.episodes import EpisodeWindow, FinishedEpisodes
from trustax.runtime.state import RunState, learner_values, preprocessing_of
from trustax.runtime.values import are_usable, describe_unusable, require_usable_step
from trustax.settings import with_values
from trustax.types import Metrics, Progress, Rollout


class Seconds(NamedTuple):
    """The duration of an iteration, by its parts."""

    collect: float
    learn: float
    environment: float | None
    """the time in the environments if they are stepped from Python; otherwise None"""


class StepResult(NamedTuple):
    """The result of one iteration."""

    state: RunState
    metrics: dict[str, np.ndarray]
    """means over the updates of the iteration, one value per seed"""
    series: dict[str, np.ndarray]
    """the traced metrics: `seed update`, or `seed` for a metric of the whole iteration"""
    fault: str | None
    """the first observation or reward that cannot be used, with its place; None if all can be used"""
    causes: list[int]
    """why the update of each learner was skipped, an index in `divergence.QUANTITIES`; -1 if it was not"""
    seconds: Seconds


class TrainStep:
    """One iteration as separate programs for collecting, logging and learning, each on its own devices, each timed.

    Only the rollout and the parameters of the policies are copied between the devices of the environments and those of
    the learners, once per iteration. `traced` names metrics that are returned for every update, not only as means.
    """

    def __init__(
        self,
        run: Run,
        environment: CompiledEnvironment | HostEnvironment,
        traced: Sequence[str] = (),
        should_stop: Callable[[], bool] = lambda: False,
        had_success: bool = False,
    ) -> None:
        preprocessing = preprocessing_of(run)
        self._run = run
        self._compiled = isinstance(environment, CompiledEnvironment)
        self.placement = placement_of(run, environment)
        self._values = self.placement.put_learners(learner_values(run))
        self._keys = jax.jit(partial(_keys, run.horizon))
        self._traced = tuple(traced)
        self._learn = self.placement.learn(partial(_learn, run.algorithm, self._traced), donate=(0,))
        self._log_rollout = self.placement.log(_log_rollout, donate=(0,))
        self._collect: Any
        if isinstance(environment, CompiledEnvironment):
            collector = partial(collect, environment, preprocessing=preprocessing)
            self._collect = self.placement.collect(collector, donate=(1, 2))
        else:
            check = partial(require_usable_step, run)
            self._collect = HostCollector(environment, preprocessing, check, should_stop, had_success)

    def compile(self, state: RunState) -> RunState:
        """Compile everything that can be compiled before the first step. Return the state on its devices."""
        state = self.place(state)
        if not self._compiled:
            return state
        with without_garbage_collection():
            iteration = self.placement.scalar(state.iteration)
            collect_keys, learn_keys = self._keys(state.keys, iteration)
            traced = self._collect.trace(*self._collect_arguments(state, collect_keys))
            *_, rollout, finished = traced.out_info
            progress = Progress(iteration, iteration)
            # The largest program first: the memory of a small run peaks while compiling.
            self._learn = self._learn.lower(state.learner, rollout, learn_keys, self._values, progress).compile()
            release_memory()
            self._collect = traced.lower().compile()
            self._log_rollout = self._log_rollout.lower(
                state.episodes, rollout, finished, state.observer.observation_statistics
            ).compile()
            release_memory()
        return state

    def __call__(self, state: RunState, num_iterations: int) -> StepResult:
        """Run one iteration. The buffers of `state` are reused for the next state."""
        start = time.perf_counter()
        iteration = self.placement.scalar(state.iteration)
        collect_keys, learn_keys = self._keys(state.keys, iteration)
        if isinstance(self._collect, HostCollector):
            self._collect.num_steps = int(state.iteration) * self._run.horizon
        observer, environment, rollout, finished = self._collect(*self._collect_arguments(state, collect_keys))
        jax.block_until_ready(rollout)
        collected = time.perf_counter()
        statistics = observer.observation_statistics
        episodes, rollout_row, usable = self._log_rollout(state.episodes, rollout, finished, statistics)
        if self.placement.is_split:
            rollout = jax.device_put(rollout, self.placement.learners)
        progress = Progress(iteration, self.placement.scalar(jnp.asarray(num_iterations, jnp.int32)))
        learner, update_row, series, causes = self._learn(state.learner, rollout, learn_keys, self._values, progress)
        for name in self._traced:
            if name not in series:
                raise TrustaxError(f"there is no metric {name!r} to trace; {similar_or_all(name, update_row.names)}")
        metrics = _on_host(rollout_row) | _on_host(update_row)
        learned = time.perf_counter()
        state = dataclasses.replace(
            state,
            learner=learner,
            observer=observer,
            episodes=episodes,
            environment=environment,
            iteration=state.iteration + 1,
        )
        environment_seconds = None if self._compiled else self._collect.environment_seconds
        return StepResult(
            state,
            metrics,
            jax.device_get(series),
            self._find_fault(usable, int(state.iteration), rollout, finished),
            np.asarray(causes).tolist(),
            Seconds(collected - start, learned - collected, environment_seconds),
        )

    def _find_fault(
        self, usable: dict[str, Bool[Array, " seed"]], iteration: int, rollout: Rollout, finished: FinishedEpisodes
    ) -> str | None:
        for field, flags in jax.device_get(usable).items():
            if not np.all(flags) and not rollout.reward.is_fully_addressable:
                return f"{self._run.env_id}, iteration {iteration}: the {field} of an environment cannot be used"
            if not np.all(flags):
                return describe_unusable(self._run, field, iteration, rollout, finished)
        return None

    def _collect_arguments(self, state: RunState, keys: Key[Array, "seed time"]) -> tuple[Any, ...]:
        policy = state.learner.policy
        if self.placement.is_split:
            policy, keys = jax.device_put((policy, keys), self.placement.environments)
        return policy, state.observer, state.environment, keys

    def place(self, state: RunState) -> RunState:
        """Move each part of the state to its devices."""
        collecting = state.observer, state.episodes, state.environment
        observer, episodes, environment = self.placement.put_environments(collecting)
        learner, keys = self.placement.put_learners((state.learner, state.keys))
        return dataclasses.replace(
            state, learner=learner, observer=observer, episodes=episodes, environment=environment, keys=keys
        )


def _keys(
    horizon: int, keys: Key[Array, " seed"], iteration: Int[Array, ""]
) -> tuple[Key[Array, "seed time"], Key[Array, " seed"]]:
    """The keys of an iteration: one for each step of collecting, and one for learning."""

    def of_seed(key: Key[Array, ""]) -> tuple[Key[Array, " time"], Key[Array, ""]]:
        collect, learn = jax.random.split(jax.random.fold_in(key, iteration))
        return jax.random.split(collect, horizon), learn

    return jax.vmap(of_seed)(keys)


def _log_rollout(
    episodes: EpisodeWindow, rollout: Rollout, finished: FinishedEpisodes, statistics: RunningStatistics | None
) -> tuple[EpisodeWindow, MetricRow, dict[str, Bool[Array, " seed"]]]:
    """Add the finished episodes to the window; return it, the metrics, and whether all numbers can be used."""

    def of_seed(
        episodes: EpisodeWindow, rollout: Rollout, finished: FinishedEpisodes, statistics: RunningStatistics | None
    ) -> tuple[Any, ...]:
        usable = all_over_devices(are_usable(rollout, finished, statistics))
        episodes = episodes.add(gather_environments(finished, axis=1))
        row = MetricRow.of(_rollout_metrics(episodes, has_success=finished.success is not None))
        return episodes, row, usable

    return over_seeds(of_seed)(episodes, rollout, finished, statistics)


def _rollout_metrics(episodes: EpisodeWindow, has_success: bool) -> Metrics:
    success = {SUCCESS: episodes.mean(episodes.successes)} if has_success else {}
    return success | {
        RETURN: episodes.mean(episodes.returns),
        "rollout/ep_len_mean": episodes.mean(episodes.lengths),
        "rollout/episodes": episodes.count.astype(jnp.float32),
    }


def _learn(
    algorithm: Algorithm,
    traced: tuple[str, ...],
    learner: Any,
    rollout: Rollout,
    keys: Key[Array, " seed"],
    values: dict[str, Float[Array, " seed"]],
    progress: Progress,
) -> tuple[Any, MetricRow, Metrics, Int[Array, " seed"]]:
    """Update every learner; one whose update is not finite keeps its state."""

    def of_seed(old: Any, rollout: Rollout, key: Key[Array, ""], own: dict[str, Any]) -> tuple[Any, ...]:
        new, metrics = with_values(algorithm, own).update(old, rollout, progress, key)
        learner, cause = skip_if_not_finite(old, new, metrics)
        return learner, means(metrics), {name: metrics[name] for name in traced if name in metrics}, cause

    return over_seeds(of_seed)(learner, rollout, keys, values)


def _on_host(row: MetricRow) -> dict[str, np.ndarray]:
    """Copy the metrics to the host, with one value per seed."""
    return dict(zip(row.names, np.asarray(row.values).T, strict=True))
