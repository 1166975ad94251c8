"""A trial of an environment: random steps of a few copies, and everything that they returned.

A vector environment of Gymnasium casts what comes from an environment to what its spaces declare. So a wrapper looks at
it before, and keeps the first fault of every kind.
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
from trustax.envs.engines import Environment, is_resumable, make, resolve
from trustax.envs.errors import brief, describe
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.registry import GYMNASIUM
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions, TimeStep

SEEDS = (0, 1)
NUM_ENVS = 2
MIN_STEPS, MAX_STEPS, MAX_SECONDS = 300, 2000, 20.0
MIN_EPISODES = 3
"""A trial goes on after MIN_STEPS until so many episodes have ended, or one of the maxima is reached."""
BOUND_STEPS = 2
"""The first action of a trial is the lowest that there is, the second the highest."""

Fault = Literal["type", "finite", "bounds", "reward", "flags"]
Faults = dict[Fault, str]


class Episode(NamedTuple):
    """An episode that ended."""

    length: int
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class RandomPlay:
    """What the copies returned; arrays start with the axes `time seed env`, observations with one row more."""

    spec: EnvSpec
    in_jax: bool
    """whether the environment is a definition in JAX"""
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    faults: Faults
    """the first fault of every kind in what a single environment returned"""
    error: str | None
    """what was raised, which ended the trial"""

    @property
    def num_steps(self) -> int:
        return len(self.reward)

    @property
    def ended(self) -> np.ndarray:
        return self.terminated | self.truncated

    @property
    def restarted(self) -> np.ndarray:
        """Which rows follow an ending, so that they only reset."""
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
    """Random actions, the same for every seed; as many steps as given, or as it takes."""
    faults: Faults = {}
    environment = _made(env, faults)
    spec, error = environment.spec, None
    first = np.zeros((0, len(SEEDS), NUM_ENVS, *spec.observation_shape), spec.observation_dtype)
    rows: list[TimeStep] = []
    try:
        first = environment.reset()[None]
        actions = random_actions(spec, num_steps or MAX_STEPS)
        began, num_episodes = time.monotonic(), 0
        while len(rows) < len(actions):
            rows.append(environment.step(actions[len(rows)]))
            num_episodes += int(np.sum(rows[-1].terminated | rows[-1].truncated))
            enough = len(rows) >= MIN_STEPS and num_episodes >= MIN_EPISODES
            if num_steps is None and (enough or time.monotonic() - began > MAX_SECONDS):
                break
    except Exception as raised:
        error = describe(raised.__cause__ or raised)
    finally:
        environment.close()

    def stacked(field: str, empty: np.ndarray) -> np.ndarray:
        return np.stack([getattr(row, field) for row in rows]) if rows else empty

    observation = np.concatenate([first, stacked("observation", first[:0])])
    nothing = np.zeros((0, len(SEEDS), NUM_ENVS), bool)
    reward, terminated, truncated = (stacked(field, nothing) for field in ("reward", "terminated", "truncated"))
    in_jax = is_resumable(env)
    return RandomPlay(spec, in_jax, observation, reward, terminated, truncated, faults, error)


def random_actions(spec: EnvSpec, num_steps: int) -> np.ndarray:
    """Actions `time seed env ...` as the environment takes them."""
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
            # Where there is no bound: as far as a policy that has learnt nothing goes.
            lowest, highest = np.where(np.isinf(low), -3, low), np.where(np.isinf(high), 3, high)
            drawn = generator.uniform(lowest, highest, (*axes, len(low))).astype(np.float32)
    drawn[0] = lowest
    drawn[1:BOUND_STEPS] = highest
    return np.asarray(spec.actions.for_environment(np.repeat(drawn, len(SEEDS), axis=1)))


def _made(env: Environment, faults: Faults) -> HostEnvironment:
    engine, source = resolve(env)
    if engine is GYMNASIUM:
        return GymnasiumHost(source, SEEDS, NUM_ENVS, wrapper=partial(Watched, faults=faults))
    return make(env, SEEDS, NUM_ENVS, compiled=False)


class Watched(gymnasium.Wrapper):
    """Passes everything on, and keeps the first fault of every kind."""

    def __init__(self, env: gymnasium.Env, faults: Faults) -> None:
        super().__init__(env)
        self._faults = faults

    def reset(self, **arguments: Any) -> tuple[Any, Any]:
        observation, info = _values(self.env.reset(**arguments), "reset", "observation", "info")
        self._look(observation, "after reset")
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        names = ("observation", "reward", "terminated", "truncated", "info")
        observation, reward, terminated, truncated, info = _values(self.env.step(action), "step", *names)
        self._look(observation, "after step")
        if not isinstance(reward, int | float | np.integer | np.floating):
            self._faults.setdefault("reward", f"a reward is a {type(reward).__name__}, not a number")
        for flag in (terminated, truncated):
            if not isinstance(flag, bool | np.bool_):
                self._faults.setdefault("flags", f"terminated or truncated is a {type(flag).__name__}, not a bool")
        return observation, reward, terminated, truncated, info

    def _look(self, observation: Any, when: str) -> None:
        fault = fault_of(self.observation_space, observation)
        if fault is not None:
            self._faults.setdefault(fault[0], f"{when}, {fault[1]}")


def _values(returned: Any, function: str, *names: str) -> Any:
    """What a function of an environment returned, if it is what Gymnasium's interface says."""
    if not isinstance(returned, tuple) or len(returned) != len(names):
        raise TypeError(f"{function} must return the {len(names)} values {', '.join(names)}, not {brief(returned)}")
    return returned


def fault_of(space: Space, value: Any, name: str = "observation") -> tuple[Fault, str] | None:
    """Why a value is not in its space, or None where it is.

    >>> fault_of(Box(-1, 1, (2,)), np.array([0.5, 3.0], np.float32))
    ('bounds', 'observation[1] = 3 is not within -1 and 1')
    """
    if isinstance(space, Dict | Tuple):
        inner: dict[Any, Space] = dict(space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces))
        found = value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, tuple) else None
        if found is None or found.keys() != inner.keys():
            keys = ", ".join(map(repr, inner))
            return "type", f"{name} is a {type(value).__name__}, not a {type(space).__name__} of {keys}"
        faults = (fault_of(inner[key], found[key], f"{name}[{key!r}]") for key in inner)
        return next(filter(None, faults), None)
    if isinstance(space, Box) and isinstance(value, np.ndarray | np.generic):
        return _fault_in_box(space, np.asarray(value), name)
    return None if space.contains(value) else ("type", f"{name} is {brief(value)}, which is not in {brief(space)}")


def _fault_in_box(space: Box, value: np.ndarray, name: str) -> tuple[Fault, str] | None:
    if value.shape != space.shape:
        return "type", f"{name} has the shape {value.shape}, but its space {space.shape}"
    if not np.can_cast(value.dtype, np.dtype(space.dtype)):
        return "type", f"{name} is of {value.dtype}, but its space of {space.dtype}"
    outside = np.argwhere(~((space.low <= value) & (value <= space.high)))  # which takes in what is not a number
    if not len(outside):
        return None
    place = tuple(outside[0].tolist())
    entry = f"{name}{list(place) or ''} = {value[place]:g}"
    if np.isnan(value[place]):
        return "finite", entry
    return "bounds", f"{entry} is not within {space.low[place]:g} and {space.high[place]:g}"
