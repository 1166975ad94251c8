"""Play a few copies of an environment with random actions, and record everything that they return.

Gymnasium's vector environments cast observations to the declared space. So a wrapper checks what a single environment
returns before the cast, and records the first fault of every kind.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Space, Tuple

from trustax.envs.base import HostEnvironment
from trustax.envs.engines import Environment, make, resolve, resumes_exactly
from trustax.envs.errors import FaultyEnvError, describe, one_line
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.registry import GYMNASIUM
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions, TimeStep

SEEDS = (0, 1)
NUM_ENVS = 2
MIN_STEPS, MAX_STEPS, MAX_SECONDS = 300, 2000, 20.0
MIN_EPISODES = 3
"""Play continues after MIN_STEPS until this many episodes have ended, or until one of the maxima is reached."""
BOUND_STEPS = 2
"""The first action is the lowest in the action space, the second is the highest."""

FLOAT32_MAX = float(np.finfo(np.float32).max)

Fault = Literal["type", "finite", "range", "bounds", "reward", "flags"]
Faults = dict[Fault, str]


class Episode(NamedTuple):
    """A finished episode."""

    length: int
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class RandomPlay:
    """What the copies returned; arrays start with the axes `time seed env`, and observations have one more row."""

    spec: EnvSpec
    in_jax: bool
    """whether the environment is written in JAX"""
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    faults: Faults
    """the first fault of every kind in the values that a single environment returned"""
    error: str | None
    """the failure that ended the play, if any, as the end of a sentence"""

    @property
    def num_steps(self) -> int:
        return len(self.reward)

    @property
    def ended(self) -> np.ndarray:
        return self.terminated | self.truncated

    @property
    def restarted(self) -> np.ndarray:
        """Which rows follow the end of an episode, so that they only reset."""
        return np.concatenate([np.zeros_like(self.ended[:1]), self.ended[:-1]])

    @cached_property
    def episodes(self) -> list[Episode]:
        length, found = np.zeros(self.reward.shape[1:], int), []
        for restarted, terminated, truncated in zip(self.restarted, self.terminated, self.truncated, strict=True):
            length = np.where(restarted, 0, length + 1)
            for copy in map(tuple, np.argwhere(terminated | truncated)):
                found.append(Episode(int(length[copy]), bool(terminated[copy]), bool(truncated[copy])))
        return found


def play(env: Environment, num_steps: int | None = None) -> RandomPlay:
    """Play random actions, the same for every seed, for `num_steps` or until there are enough episodes."""
    faults: Faults = {}
    environment = _make_environment(env, faults)
    spec, error = environment.spec, None
    first = np.zeros((0, len(SEEDS), NUM_ENVS, *spec.observation_shape), spec.observation_dtype)
    rows: list[TimeStep] = []
    try:
        first = environment.reset()[None]
        actions = random_actions(spec, num_steps or MAX_STEPS)
        start_time, num_episodes = time.monotonic(), 0
        while len(rows) < len(actions):
            rows.append(environment.step(actions[len(rows)]))
            num_episodes += int(np.sum(rows[-1].terminated | rows[-1].truncated))
            enough = len(rows) >= MIN_STEPS and num_episodes >= MIN_EPISODES
            if num_steps is None and (enough or time.monotonic() - start_time > MAX_SECONDS):
                break
    except Exception as raised:
        error = _describe_failure(raised)
    finally:
        environment.close()

    def stacked(field: str, empty: np.ndarray) -> np.ndarray:
        return np.stack([getattr(row, field) for row in rows]) if rows else empty

    observation = np.concatenate([first, stacked("observation", first[:0])])
    empty_flags = np.zeros((0, len(SEEDS), NUM_ENVS), bool)
    reward, terminated, truncated = (stacked(field, empty_flags) for field in ("reward", "terminated", "truncated"))
    in_jax = resumes_exactly(env)
    return RandomPlay(spec, in_jax, observation, reward, terminated, truncated, faults, error)


def _describe_failure(error: Exception) -> str:
    failure = error.__cause__
    if isinstance(failure, FaultyEnvError) and failure.__cause__ is None:
        return f": {failure}"
    cause = failure.__cause__ if isinstance(failure, FaultyEnvError) else failure
    return f" raised {describe(cause or error)}"


def random_actions(spec: EnvSpec, num_steps: int) -> np.ndarray:
    """Random actions `time seed env ...`, in the environment's numbering and shape."""
    generator, axes = np.random.default_rng(0), (num_steps, 1, NUM_ENVS)
    lowest: Any
    highest: Any
    match spec.actions:
        case DiscreteActions(count=count):
            lowest, highest = 0, count - 1
            drawn = generator.integers(0, count, axes, np.int32)
        case MultiDiscreteActions(counts=counts):
            lowest, highest = 0, np.array(counts) - 1
            drawn = generator.integers(0, counts, (*axes, len(counts)), np.int32)
        case BoxActions(bounds=(low, high)):
            # Without a bound: the range of an untrained policy.
            lowest, highest = np.where(np.isinf(low), -3, low), np.where(np.isinf(high), 3, high)
            drawn = generator.uniform(lowest, highest, (*axes, len(low))).astype(np.float32)
    drawn[0] = lowest
    drawn[1:BOUND_STEPS] = highest
    return np.asarray(spec.actions.for_environment(np.repeat(drawn, len(SEEDS), axis=1)))


def _make_environment(env: Environment, faults: Faults) -> HostEnvironment:
    engine, source = resolve(env)
    if engine is GYMNASIUM:
        return GymnasiumHost(source, SEEDS, NUM_ENVS, wrapper=partial(FaultRecorder, faults=faults))
    return make(env, SEEDS, NUM_ENVS, compiled=False)


class FaultRecorder(gymnasium.Wrapper):
    """A wrapper that records the first fault of every kind and changes nothing."""

    def __init__(self, env: gymnasium.Env, faults: Faults) -> None:
        super().__init__(env)
        self._faults = faults

    def reset(self, **arguments: Any) -> Any:
        returned = self.env.reset(**arguments)
        if isinstance(returned, tuple) and len(returned) == 2:
            self._check_observation(returned[0], "after reset")
        return returned  # something else is reported when the copies are stepped

    def step(self, action: Any) -> Any:
        returned = self.env.step(action)
        if not isinstance(returned, tuple) or len(returned) != 5:
            return returned
        observation, reward, terminated, truncated, _ = returned
        self._check_observation(observation, "after step")
        if not isinstance(reward, int | float | np.integer | np.floating):
            self._faults.setdefault("reward", f"a reward is a {type(reward).__name__}, not a number")
        for flag in (terminated, truncated):
            if not isinstance(flag, bool | np.bool_):
                self._faults.setdefault("flags", f"terminated or truncated is a {type(flag).__name__}, not a bool")
        return returned

    def _check_observation(self, observation: Any, when: str) -> None:
        fault = find_fault(self.observation_space, observation)
        if fault is not None:
            self._faults.setdefault(fault[0], f"{when}, {fault[1]}")


def find_fault(space: Space, value: Any, name: str = "observation") -> tuple[Fault, str] | None:
    """The reason why a value is not in its space, or None if it is.

    >>> find_fault(Box(-1, 1, (2,)), np.array([0.5, 3.0], np.float32))
    ('bounds', 'observation[1] = 3 is not between -1 and 1')
    """
    if isinstance(space, Dict | Tuple):
        inner: dict[Any, Space] = dict(space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces))
        found = value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, tuple) else None
        if found is None or found.keys() != inner.keys():
            keys = ", ".join(map(repr, inner))
            return "type", f"{name} is a {type(value).__name__}, not a {type(space).__name__} of {keys}"
        faults = (find_fault(inner[key], found[key], f"{name}[{key!r}]") for key in inner)
        return next(filter(None, faults), None)
    if isinstance(space, Box) and isinstance(value, np.ndarray | np.generic):
        return _find_box_fault(space, np.asarray(value), name)
    return (
        None if space.contains(value) else ("type", f"{name} is {one_line(value)}, which is not in {one_line(space)}")
    )


def _find_box_fault(space: Box, value: np.ndarray, name: str) -> tuple[Fault, str] | None:
    if value.shape != space.shape:
        return "type", f"{name} has the shape {value.shape}, but its space has {space.shape}"
    if not np.can_cast(value.dtype, np.dtype(space.dtype)):
        return "type", f"{name} has the dtype {value.dtype}, but its space has {space.dtype}"
    if value.dtype == np.float64 and len(large := np.argwhere(np.isfinite(value) & (np.abs(value) > FLOAT32_MAX))):
        index = tuple(large[0].tolist())
        return "range", f"{name}{list(index) or ''} = {value[index]:g}, which does not fit float32 and becomes inf"
    outside = np.argwhere(~((space.low <= value) & (value <= space.high)))  # also true for NaN
    if not len(outside):
        return None
    index = tuple(outside[0].tolist())
    entry = f"{name}{list(index) or ''} = {value[index]:g}"
    if np.isnan(value[index]):
        return "finite", entry
    return "bounds", f"{entry} is not between {space.low[index]:g} and {space.high[index]:g}"
