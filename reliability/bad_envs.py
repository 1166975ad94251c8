"""Environments with one fault each, for `reliability.environments`."""

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from trustax.types import DiscreteActions, EnvSpec

NUM_ENVS, BAD_ENV = 8, 5


class Sound(gymnasium.Env):
    """Noise and rewards of 1; episodes of ten steps. Its faulty variants override the parts below."""

    observation_space: Any = spaces.Box(-9, 9, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps, self.time = self.steps + 1, self.time + 1
        return self.observe(), self.reward(), *self.flags(), {}

    def observe(self) -> Any:
        return self.np_random.normal(size=2).clip(-9, 9).astype(np.float32)

    def reward(self) -> Any:
        return 1.0

    def flags(self) -> tuple[Any, Any]:
        return self.time == 10, False


def with_parts(**parts: Any) -> Callable[[], gymnasium.Env]:
    """A callable that makes variants of `Sound` with other attributes."""
    return type("Variant", (Sound,), parts)


def bad_value(field: str, value: float, step: int) -> Callable[[], gymnasium.Env]:
    """A callable that makes eight environments, of which one returns a bad value at a step.

    Every tenth step only resets, so the environment counts its own steps.
    """
    number = count()

    class Late(Sound):
        def __init__(self) -> None:
            super().__init__()
            self.is_bad = next(number) == BAD_ENV

        def observe(self) -> Any:
            is_now = self.is_bad and field == "observation" and self.steps == step
            return np.array([0.0, value if is_now else 0.0], np.float32)

        def reward(self) -> Any:
            return value if self.is_bad and field == "reward" and self.steps == step else 1.0

        def flags(self) -> tuple[Any, Any]:
            return False, False

    return Late


class BadJaxEnv:
    """The same in JAX: every environment returns a bad value at a step."""

    spec: ClassVar = EnvSpec((2,), DiscreteActions(2))
    time_limit: ClassVar = None

    def __init__(self, field: str, value: float, step: int) -> None:
        self.field, self.value, self.bad_step = field, value, step

    def reset(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32), jax.random.uniform(key)

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        steps, chance = state[0] + 1, state[1]
        reward = jnp.where((steps == self.bad_step) & (self.field == "reward"), self.value, 1.0)
        return (steps, chance), reward, jnp.zeros((), bool)

    def observe(self, state: Any) -> Any:
        bad = jnp.where((state[0] == self.bad_step) & (self.field == "observation"), self.value, 0.0)
        return jnp.stack([state[1], bad])
