"""Collect rollouts, from compiled environments or from host environments.

A `CollectorState` normalizes observations and rewards for the learner, and tracks raw returns. It is part of the run
state.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped, UInt32

from trustax.envs.base import CompiledEnvironment, EnvState, HostEnvironment
from trustax.networks import Policy
from trustax.ops.transforms import device_key, is_divided, over_seeds, separate_steps, unroll_steps
from trustax.runtime.collector_state import CollectorState, Preprocessing, Step, observe
from trustax.runtime.episodes import FinishedEpisodes
from trustax.types import Rollout, TimeStep


def act(policy: Policy, observation: Shaped[Array, "env ..."], key: Key[Array, ""]) -> Array:
    """Sample an action for each environment."""
    distribution, _ = policy.batch(observation)
    return distribution.sample(key)


def collect(
    environment: CompiledEnvironment,
    policies: Policy,
    observer: CollectorState,
    state: EnvState,
    keys: Key[Array, "seed time"],
    preprocessing: Preprocessing,
) -> tuple[CollectorState, EnvState, Rollout, FinishedEpisodes]:
    """Collect a rollout from a compiled environment, for all seeds at once; traced as part of an iteration."""

    # All random numbers are drawn before the loop, in bulk: inside the loop, drawing would cost more than acting.
    keys = jax.vmap(jax.vmap(device_key))(keys) if is_divided() else keys
    noise = over_seeds(_draw_noise)(policies, observer.observation, keys)
    state, starts = environment.draw_starts(state, keys.shape[1])

    def step(carry: tuple[CollectorState, EnvState], random: tuple[Array, Any]) -> tuple[Any, Any]:
        (observer, state), (noise, starts) = separate_steps(carry), random
        action = over_seeds(_choose_with_noise)(policies, observer.observation, noise)
        state, timestep = environment.step(state, environment.spec.actions.for_environment(action), starts)
        observer, row = over_seeds(partial(observe, preprocessing=preprocessing))(observer, timestep)
        return (observer, state), (row, action)

    random = jnp.swapaxes(noise, 0, 1), starts
    # A step does so little work that the overhead of the loop matters, even on a CPU.
    unroll = unroll_steps(on_cpu=4, on_gpu=4 if environment.on_cpu else 16)
    (observer, state), (rows, actions) = jax.lax.scan(step, (observer, state), random, unroll=unroll)
    return observer, state, *_assemble(rows, actions, observer)


def _draw_noise(
    policy: Policy, observation: Shaped[Array, "env ..."], keys: Key[Array, " time"]
) -> Float[Array, "..."]:
    distribution, _ = jax.eval_shape(policy.batch, observation)
    return jax.vmap(distribution.noise)(keys)


def _choose_with_noise(policy: Policy, observation: Shaped[Array, "env ..."], noise: Float[Array, "..."]) -> Array:
    distribution, _ = policy.batch(observation)
    return distribution.choose(noise)


class RolloutStopped(Exception):  # noqa: N818
    """A rollout was given up because the run is to stop; the state is that of the last complete iteration."""


class HostCollector:
    """Collects rollouts from a host environment, by alternating a compiled call and a step of the environments.

    Raw time steps are stored on the host, and observed again all at once when the rollout is complete. So the rollout
    reaches the device in one transfer, and only the actions are copied back from the device.

    `check` raises an error if a time step, given with its number, cannot be used. A rollout may take minutes, so
    `should_stop` is asked before every step. Once an episode has reported success, all later rollouts have it, also
    after a resume: `had_success` says whether the run has reported it before.
    """

    def __init__(
        self,
        environment: HostEnvironment,
        preprocessing: Preprocessing,
        check: Callable[[TimeStep, int], None] = lambda timestep, step: None,
        should_stop: Callable[[], bool] = lambda: False,
        had_success: bool = False,
    ) -> None:
        self._environment = environment
        self._check = check
        self._should_stop = should_stop
        self._has_success = had_success
        self.num_steps = 0
        """steps of each environment before the next rollout, for messages"""
        self._choose = jax.jit(partial(_choose, environment.spec.actions.for_environment))
        self._observe_and_choose = jax.jit(
            partial(_observe_and_choose, environment.spec.actions.for_environment, preprocessing)
        )
        self._replay = jax.jit(partial(_replay, preprocessing=preprocessing))
        self.environment_seconds = 0.0
        """time spent in the environments during the last rollout"""

    def __call__(
        self, policies: Policy, observer: CollectorState, state: None, keys: Key[Array, "seed time"]
    ) -> tuple[CollectorState, None, Rollout, FinishedEpisodes]:
        start, timesteps, actions = observer, list[TimeStep](), list[np.ndarray]()
        self.environment_seconds = 0.0
        rows = np.asarray(jax.random.key_data(keys)).swapaxes(0, 1)
        action, for_environment = self._choose(policies, observer, rows[0])
        for row in [*rows[1:], None]:
            if self._should_stop():
                raise RolloutStopped
            timestep = self._step(np.asarray(for_environment))
            timesteps.append(timestep)
            actions.append(np.asarray(action))
            if row is not None:
                seen = timestep._replace(raw_reward=None, game_over=None, success=None)
                observer, action, for_environment = self._observe_and_choose(policies, observer, seen, row)
        self._has_success |= any(one.success is not None for one in timesteps)
        if self._has_success and timesteps[0].success is None:
            timesteps[0] = timesteps[0]._replace(success=np.zeros_like(timesteps[0].terminated))
        return self._replay(start, _stack(timesteps), np.stack(actions))

    def _step(self, action: np.ndarray) -> TimeStep:
        start = time.perf_counter()
        timestep = self._environment.step(action)
        self.environment_seconds += time.perf_counter() - start
        self.num_steps += 1
        self._check(timestep, self.num_steps)
        return timestep


def _stack(timesteps: list[TimeStep]) -> TimeStep:
    """Stack time steps. A field that some rows lack, such as success before the end of an episode, is zero there."""

    def stack_field(*rows: Any) -> np.ndarray | None:
        present = [row for row in rows if row is not None]
        return np.stack([np.zeros_like(present[0]) if row is None else row for row in rows]) if present else None

    return TimeStep(*map(stack_field, *timesteps))


def _choose(
    for_environment: Callable[[Array], Array],
    policies: Policy,
    observer: CollectorState,
    keys: UInt32[Array, "seed data"],
) -> tuple[Array, Array]:
    action = over_seeds(act)(policies, observer.observation, jax.random.wrap_key_data(keys))
    return action, for_environment(action)


def _observe_and_choose(
    for_environment: Callable[[Array], Array],
    preprocessing: Preprocessing,
    policies: Policy,
    observer: CollectorState,
    timestep: TimeStep,
    keys: UInt32[Array, "seed data"],
) -> tuple[CollectorState, Array, Array]:
    observer, _ = over_seeds(partial(observe, preprocessing=preprocessing))(observer, timestep)
    return observer, *_choose(for_environment, policies, observer, keys)


def _replay(
    observer: CollectorState,
    timesteps: TimeStep,
    actions: Shaped[Array, "time seed env ..."],
    preprocessing: Preprocessing,
) -> tuple[CollectorState, None, Rollout, FinishedEpisodes]:
    observer, rows = jax.lax.scan(over_seeds(partial(observe, preprocessing=preprocessing)), observer, timesteps)
    return observer, None, *_assemble(rows, actions, observer)


def _assemble(
    rows: Step, actions: Shaped[Array, "time seed env ..."], observer: CollectorState
) -> tuple[Rollout, FinishedEpisodes]:
    """Assemble rollouts with a leading seed axis; the current observation is appended as the last row."""
    rows, actions = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (rows, actions))
    return Rollout(
        observation=jnp.concatenate([rows.observation, observer.observation[:, None]], axis=1),
        action=actions,
        reward=rows.reward,
        terminated=rows.terminated,
        truncated=rows.truncated,
        weight=rows.weight,
    ), rows.episodes
