"""An environment in JAX that draws its states, as a Gymnasium environment that can be recorded."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from trustax.envs.jax_env import DrawnJaxEnv
from trustax.types import Actions, BoxActions, DiscreteActions

DEFAULT_FPS = 30


class JaxFilm(gymnasium.Env[np.ndarray, Any]):
    """Steps an environment in JAX and renders its state."""

    render_mode = "rgb_array"

    def __init__(self, definition: DrawnJaxEnv) -> None:
        self._definition = definition
        self._reset, self._step = jax.jit(definition.reset), jax.jit(definition.step)
        self._observe = jax.jit(definition.observe)
        self.metadata = {"render_fps": getattr(definition, "frames_per_second", DEFAULT_FPS)}
        self.observation_space = spaces.Box(-np.inf, np.inf, definition.spec.observation_shape)
        self.action_space = _space_of(definition.spec.actions)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._reset(jax.random.key(int(self.np_random.integers(2**32))))
        self._time = 0
        return np.asarray(self._observe(self._state)), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._state, reward, terminated = self._step(self._state, action)
        self._time += 1
        limit = self._definition.time_limit
        truncated = limit is not None and self._time >= limit and not terminated
        return np.asarray(self._observe(self._state)), float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> Any:
        return np.asarray(self._definition.render(jax.device_get(self._state)))


def _space_of(actions: Actions) -> spaces.Space:
    if isinstance(actions, DiscreteActions):
        return spaces.Discrete(actions.count, start=actions.start)
    if isinstance(actions, BoxActions):
        low, high = (np.reshape(bound, actions.box_shape or actions.shape) for bound in actions.bounds)
        return spaces.Box(low, high)
    shape = actions.array_shape or actions.shape
    counts, starts = (np.reshape(numbers, shape) for numbers in (actions.counts, actions.starts))
    return spaces.MultiDiscrete(counts, start=starts)
