"""Vectorize environments written in JAX: adds the axes `seed env`, a time limit and NEXT_STEP autoreset."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, Shaped

from trustax.envs.jax.cartpole import CartPole
from trustax.envs.jax.pendulum import Pendulum
from trustax.envs.jax.unlock import Unlock, UnlockPickup
from trustax.envs.jax_env import GoalJaxEnv, JaxEnv, validate
from trustax.runtime.compilation import jit_once
from trustax.types import TimeStep

JAX_ENVS: dict[str, JaxEnv] = {
    "CartPole-v1": CartPole(),
    "MiniGrid-Unlock-v0": Unlock(),
    "MiniGrid-UnlockPickup-v0": UnlockPickup(),
    "Pendulum-v1": Pendulum(),
}
"""The environments included in Trustax, by their Gymnasium ids."""


class VectorizedState(eqx.Module):
    """The state of all environments. Every leaf starts with the axes `seed env`, so it can be sharded over seeds."""

    inner: Any
    key: Key[Array, "seed env"]
    """the start of an episode at step t depends only on this key and t"""
    drawn: Int[Array, "seed env"]
    """the number of steps for which starts have been sampled"""
    elapsed: Int[Array, "seed env"]
    done: Bool[Array, "seed env"]


class VectorizedJaxEnv:
    """`num_envs` copies of a `JaxEnv` for each seed: a `CompiledEnvironment`."""

    resumable = True
    on_cpu = False

    def __init__(self, definition: JaxEnv, seeds: Sequence[int], num_envs: int) -> None:
        self.spec = definition.spec
        self._definition = definition
        self._seeds = np.asarray(seeds, np.uint32)
        self._num_envs = num_envs

    def reset(self, start: int = 0) -> tuple[VectorizedState, Array]:
        if self._definition not in JAX_ENVS.values():
            validate(self._definition)
        return jit_once(partial(self._reset, start))()

    def _reset(self, start: int) -> tuple[VectorizedState, Array]:
        stream = jax.vmap(partial(_environment_key, start), (0, None))
        keys = jax.vmap(stream, (None, 0), out_axes=1)(self._seeds, np.arange(self._num_envs))
        zeros = jnp.zeros(keys.shape, jnp.int32)
        inner = _batched(self._start)(keys, zeros)
        return VectorizedState(inner, keys, zeros + 1, zeros, zeros > 0), self._observe(inner, zeros)

    def _observe(self, inner: Any, like: Shaped[Array, "seed env"]) -> Shaped[Array, "seed env ..."]:
        return _of_states(self._definition.observe, inner, like).astype(self.spec.observation_dtype)

    def draw_starts(self, state: VectorizedState, num_steps: int) -> tuple[VectorizedState, Any]:
        """Sample the first states of all episodes that may start in the next steps, `time seed env`.

        Sampled in bulk, they cost little; in the loop they would cost more than the steps. Sampling only those that are
        needed would take a conditional in every step, for which a GPU has to synchronize with the CPU.
        """
        steps = jnp.arange(num_steps, dtype=jnp.int32)[:, None, None] + state.drawn[None]
        starts = jax.vmap(_batched(self._start), (None, 0))(state.key, steps)
        return dataclasses.replace(state, drawn=state.drawn + num_steps), starts

    def _start(self, key: Key[Array, ""], step: Int[Array, ""]) -> Any:
        return self._definition.reset(jax.random.fold_in(key, step))

    def step(
        self, state: VectorizedState, action: Shaped[Array, "seed env ..."], starts: Any = None
    ) -> tuple[VectorizedState, TimeStep]:
        if starts is None:
            state, rows = self.draw_starts(state, 1)
            starts = jax.tree.map(lambda x: x[0], rows)
        stepped, reward, terminated = _batched(self._definition.step)(state.inner, action)
        running = ~state.done
        elapsed = jnp.where(running, state.elapsed + 1, 0)
        inner = _select(running, stepped, starts)
        terminated = terminated.astype(bool) & running
        limit = self._definition.time_limit
        truncated = jnp.zeros_like(running) if limit is None else running & (elapsed >= limit)
        timestep = TimeStep(
            observation=self._observe(inner, running),
            reward=jnp.where(running, reward, 0.0).astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            success=self._success(inner, terminated | truncated),
        )
        return VectorizedState(inner, state.key, state.drawn, elapsed, terminated | truncated), timestep

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def _success(self, inner: Any, ended: Bool[Array, "seed env"]) -> Bool[Array, "seed env"] | None:
        if not isinstance(self._definition, GoalJaxEnv):
            return None
        return ended & _of_states(self._definition.succeeded, inner, ended)


def _environment_key(start: int, seed: Any, env: Any) -> Key[Array, ""]:
    # The constant (the letters "env") separates this stream from others that use the same seed.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 0x656E76), env)
    return jax.random.fold_in(key, start) if start else key


def _batched(function: Any) -> Any:
    return jax.vmap(jax.vmap(function))


def _of_states(function: Any, inner: Any, like: Shaped[Array, "seed env"]) -> Any:
    """A function of each state; the axes are those of `like`, since a state may hold no array."""
    return _batched(lambda state, _: function(state))(inner, like)


def _select(where: Bool[Array, "seed env"], true: Any, false: Any) -> Any:
    def select(a: Array, b: Array) -> Array:
        return jnp.where(where.reshape(where.shape + (1,) * (a.ndim - 2)), a, b)

    return jax.tree.map(select, true, false)
