"""`RunState`: the complete state of a run, how it starts, and how its environments restart."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from trustax.agent import Agent
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.envs.base import EnvState
from trustax.ops.transforms import over_seeds
from trustax.run import Run
from trustax.runtime.collector_state import CollectorState, Preprocessing
from trustax.runtime.compilation import jit_once, release_memory, without_garbage_collection
from trustax.runtime.episodes import EpisodeWindow
from trustax.runtime.values import require_usable
from trustax.runtime.warm_start import warm_start
from trustax.settings import per_learner_values, with_values
from trustax.types import EnvSpec


class RunState(eqx.Module):
    """The complete state of a run; all fields except `iteration` have a leading seed axis."""

    learner: Any
    observer: CollectorState
    episodes: EpisodeWindow
    environment: EnvState
    """the state of a compiled environment; None for a host environment, which holds its own state"""
    keys: Key[Array, " seed"]
    iteration: Int[Array, ""]


def is_deleted(state: RunState) -> bool:
    """Whether a step has reused buffers of the state; it can then not be saved, even if the step was interrupted."""
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(state))


def preprocessing_of(run: Run) -> Preprocessing:
    return Preprocessing(
        run.normalize_observations, run.normalize_rewards, run.bootstrap_truncation, run.algorithm.discount
    )


def learner_values(run: Run) -> dict[str, Float[Array, " seed"]]:
    """The settings that differ between learners, as arrays with one value for each."""
    return {name: jnp.asarray(values, jnp.float32) for name, values in per_learner_values(run.algorithm).items()}


def start(run: Run, environment: CompiledEnvironment | HostEnvironment, agent: Agent | None = None) -> RunState:
    """Reset the environments, and return the state before the first iteration; with the policy of an agent, if any."""
    with without_garbage_collection():
        env_state, observation = _reset(run, environment)
        init = jit_once(partial(_init, run, environment.spec, agent=agent))
        learner, observer, episodes, keys = init(observation)
    release_memory()
    return RunState(learner, observer, episodes, env_state, keys, jnp.zeros((), jnp.int32))


def template_of(run: Run, spec: EnvSpec) -> tuple[Any, CollectorState]:
    """The shapes of a run's learner and collector state, computed without its environment."""
    shape = (run.num_seeds, run.num_envs, *spec.observation_shape)
    learner, observer, *_ = jax.eval_shape(
        partial(_init, run, spec), jax.ShapeDtypeStruct(shape, spec.observation_dtype)
    )
    return learner, observer


def _init(
    run: Run, spec: EnvSpec, observation: Array, agent: Agent | None = None
) -> tuple[Any, CollectorState, EpisodeWindow, Key[Array, " seed"]]:
    preprocessing = preprocessing_of(run)
    seeds = np.asarray(run.seeds, np.uint32)
    keys = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)
    values = learner_values(run)
    statistics = None if agent is None else agent.statistics

    def init(key: Key[Array, ""], own: dict[str, Any]) -> Any:
        state = with_values(run.algorithm, own).init(key, spec)
        return state if agent is None else warm_start(state, agent)

    learner = over_seeds(init)(keys[:, 0], values)
    observer = over_seeds(lambda first: CollectorState.init(first, preprocessing, spec, statistics))(observation)
    episodes = jax.vmap(lambda _: EpisodeWindow.init())(seeds)
    return learner, observer, episodes, keys[:, 1]


def restart_environment(run: Run, state: RunState, environment: CompiledEnvironment | HostEnvironment) -> RunState:
    """Start new episodes in environments that cannot be saved in the middle of one.

    The new episodes depend only on the state: the iteration is the start number of `reset`.
    """
    env_state, observation = _reset(run, environment, start=int(state.iteration))
    observer = _jitted_restart()(state.observer, observation)
    return dataclasses.replace(state, observer=observer, environment=env_state)


@cache
def _jitted_restart() -> Callable[[CollectorState, Array], CollectorState]:
    return jit_once(over_seeds(CollectorState.restart))


def _reset(run: Run, environment: CompiledEnvironment | HostEnvironment, start: int = 0) -> tuple[EnvState, Array]:
    if isinstance(environment, CompiledEnvironment):
        return environment.reset(start)
    observation = environment.reset(start)
    require_usable(run, "observation", observation, ", at reset")
    return None, jnp.asarray(observation)


def is_resumable(environment: CompiledEnvironment | HostEnvironment) -> bool:
    """Whether the state of the environment can be saved in the middle of an episode."""
    return isinstance(environment, CompiledEnvironment) and environment.resumable
