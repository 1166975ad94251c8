"""One iteration of training: collect a rollout, learn from it. And the state that it takes and gives.

Randomness is addressed: the keys of an iteration follow from the seed and its number alone, so that neither the way
it is run, nor logging, nor resuming changes a result.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from trustax.algorithms import Algorithm
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.envs.base import EnvState
from trustax.episodes import EpisodeWindow, FinishedEpisodes
from trustax.rollout import HostCollector, Observer, Preprocessing, collect
from trustax.run import Run
from trustax.seeds import over_seeds
from trustax.types import EnvSpec, Metrics, Progress, Rollout


class RunState(eqx.Module):
    """Everything a run is; all but the iteration has a leading seed axis."""

    learner: Any
    observer: Observer
    episodes: EpisodeWindow
    environment: EnvState
    """the state of a compiled environment; None where the environment keeps it to itself"""
    keys: Key[Array, " seed"]
    iteration: Int[Array, ""]


Iteration = Callable[[RunState, Any], tuple[RunState, Metrics]]
"""(state, number of iterations in the run) -> state and metrics, each metric with one value a seed."""


def preprocessing_of(run: Run) -> Preprocessing:
    return Preprocessing(
        run.normalize_observations, run.normalize_rewards, run.bootstrap_truncation, run.algorithm.discount
    )


def start(run: Run, environment: CompiledEnvironment | HostEnvironment) -> RunState:
    """The state before the first iteration; resets the environments."""
    env_state, observation = _reset(environment)
    learner, observer, episodes, keys = jax.jit(partial(_begin, run, environment.spec))(observation)
    return RunState(learner, observer, episodes, env_state, keys, jnp.zeros((), jnp.int32))


def template_of(run: Run, spec: EnvSpec) -> tuple[Any, Observer]:
    """Learner and observer of a run as shapes, made without its environment."""
    shape = (run.num_seeds, run.num_envs, *spec.observation_shape)
    learner, observer, *_ = jax.eval_shape(
        partial(_begin, run, spec), jax.ShapeDtypeStruct(shape, spec.observation_dtype)
    )
    return learner, observer


def _begin(run: Run, spec: EnvSpec, observation: Array) -> tuple[Any, Observer, EpisodeWindow, Key[Array, " seed"]]:
    preprocessing = preprocessing_of(run)
    seeds = np.asarray(run.seeds, np.uint32)
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)
    learner = over_seeds(lambda key: run.algorithm.init(key, spec))(keys[:, 0])
    observer = over_seeds(lambda seen: Observer.init(seen, preprocessing, spec))(observation)
    episodes = jax.vmap(lambda _: EpisodeWindow.init())(seeds)
    return learner, observer, episodes, keys[:, 1]


def restart_environment(state: RunState, environment: CompiledEnvironment | HostEnvironment) -> RunState:
    """The state with new episodes, for environments that cannot be saved in the middle of one."""
    env_state, observation = _reset(environment)
    observer = jax.jit(over_seeds(Observer.restart))(state.observer, observation)
    return dataclasses.replace(state, observer=observer, environment=env_state)


def _reset(environment: CompiledEnvironment | HostEnvironment) -> tuple[EnvState, Array]:
    if isinstance(environment, CompiledEnvironment):
        return environment.reset()
    return None, jnp.asarray(environment.reset())


def is_resumable(environment: CompiledEnvironment | HostEnvironment) -> bool:
    """Whether the environment's state can be saved in the middle of an episode."""
    return isinstance(environment, CompiledEnvironment) and environment.resumable


def make_iteration(run: Run, environment: CompiledEnvironment | HostEnvironment, state: RunState) -> Iteration:
    """The iteration of a run: one compiled call where the environment allows it.

    That call is compiled here and now, for states like the one given.
    """
    if isinstance(environment, CompiledEnvironment):
        return _compiled_iteration(run, environment, state)
    return _host_iteration(run, environment)


def _compiled_iteration(run: Run, environment: CompiledEnvironment, state: RunState) -> Iteration:
    @partial(jax.jit, donate_argnums=0)
    def iterate(state: RunState, num_iterations: Int[Array, ""]) -> tuple[RunState, Metrics]:
        collect_keys, update_keys = _keys(state, run.horizon)
        observer, env_state, rollout, finished = collect(
            environment,
            state.learner.policy,
            state.observer,
            state.environment,
            collect_keys,
            preprocessing_of(run),
        )
        state = dataclasses.replace(state, observer=observer, environment=env_state)
        return _learn(run.algorithm, state, rollout, finished, num_iterations, update_keys)

    return iterate.lower(state, jnp.zeros((), jnp.int32)).compile()


def _host_iteration(run: Run, environment: HostEnvironment) -> Iteration:
    collector = HostCollector(environment, preprocessing_of(run))
    keys = jax.jit(partial(_keys, horizon=run.horizon))
    learn = jax.jit(partial(_learn, run.algorithm))

    def iterate(state: RunState, num_iterations: Int[Array, ""]) -> tuple[RunState, Metrics]:
        collect_keys, update_keys = keys(state)
        observer, rollout, finished = collector(state.learner.policy, state.observer, collect_keys)
        state = dataclasses.replace(state, observer=observer)
        return learn(state, rollout, finished, num_iterations, update_keys)

    return iterate


def _keys(state: RunState, horizon: int) -> tuple[Key[Array, "seed time"], Key[Array, " seed"]]:
    """The keys of this iteration: one for every step of the rollout, and one for the update."""

    def of_seed(key: Key[Array, ""]) -> tuple[Key[Array, " time"], Key[Array, ""]]:
        collect_key, update_key = jax.random.split(jax.random.fold_in(key, state.iteration))
        return jax.random.split(collect_key, horizon), update_key

    return jax.vmap(of_seed)(state.keys)


def _learn(
    algorithm: Algorithm,
    state: RunState,
    rollout: Rollout,
    finished: FinishedEpisodes,
    num_iterations: Int[Array, ""],
    keys: Key[Array, " seed"],
) -> tuple[RunState, Metrics]:
    progress = Progress(state.iteration, num_iterations)

    def update(learner: Any, rollout: Rollout, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        learner, metrics = algorithm.update(learner, rollout, progress, key)
        return learner, {name: jnp.mean(value) for name, value in metrics.items()}

    learner, metrics = over_seeds(update)(state.learner, rollout, keys)
    episodes = over_seeds(EpisodeWindow.add)(state.episodes, finished)
    state = dataclasses.replace(state, learner=learner, episodes=episodes, iteration=state.iteration + 1)
    return state, over_seeds(_rollout_metrics)(episodes, rollout) | metrics


def _rollout_metrics(episodes: EpisodeWindow, rollout: Rollout) -> Metrics:
    def finite(values: Array) -> Float[Array, ""]:
        return jnp.all(jnp.isfinite(values)).astype(jnp.float32)

    return {
        "rollout/ep_rew_mean": episodes.mean(episodes.returns),
        "rollout/ep_len_mean": episodes.mean(episodes.lengths),
        "rollout/episodes": episodes.count.astype(jnp.float32),
        "finite/observation": finite(rollout.observation),
        "finite/reward": finite(rollout.reward),
    }
