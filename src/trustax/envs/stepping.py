"""Step Gymnasium environments one after another, and check what they return.

Worker processes import this module without the rest of Trustax, so its imports of Trustax are relative, and none of
them leads to JAX.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array

from .atari import GAME_OVER, SCORE
from .errors import FaultyEnvError, failures_of, one_line

SUCCESS = "is_success"
"""The key of an info that says whether an episode reached its goal, as in Stable-Baselines3."""
SPACES = ("observation_space", "action_space")


class Row(NamedTuple):
    """One step of all copies: a batch of observations, and arrays with one value per copy."""

    observation: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    score: np.ndarray | None
    """the points of an Atari game in this step; None for other environments"""
    game_over: np.ndarray | None
    success: np.ndarray | None
    """whether an episode that ends here reached its goal; None if no step has reported success"""


class Copies:
    """Copies of an environment, with NEXT_STEP autoreset (see `trustax.types.TimeStep`)."""

    def __init__(self, envs: Sequence[gymnasium.Env]) -> None:
        self._envs = envs
        self._observations: list[Any] = [None] * len(envs)
        self._ended = np.zeros(len(envs), bool)
        try:
            self.observation_space, self.action_space = self._spaces(0)
            self._require_same_spaces()
        except FaultyEnvError:
            with suppress(FaultyEnvError):
                self.close()
            raise

    def reset(self, seeds: Sequence[int], ended: np.ndarray | None = None) -> Any:
        """Start all copies and return their observations; the next step resets those in `ended` again."""
        for index, seed in enumerate(seeds):
            with failures_of(index, "reset"):
                self._reset(index, seed=seed)
        self._ended = np.zeros(len(self._envs), bool) if ended is None else ended
        return self._batch()

    def step(self, actions: np.ndarray) -> Row:
        """Step the copies; a copy whose episode ended in the last step is reset instead."""
        infos: list[dict[str, Any]] = [{}] * len(self._envs)
        reward = np.zeros(len(self._envs))
        terminated, truncated = np.zeros((2, len(self._envs)), bool)
        for index, action in enumerate(actions):
            if self._ended[index]:
                with failures_of(index, "reset"):
                    infos[index] = _of_atari(self._reset(index))
                continue
            with failures_of(index, "step"):
                returned = self._envs[index].step(action)
                names = ("observation", "reward", "terminated", "truncated", "info")
                observation, paid, *flags, infos[index] = require_values(returned, index, "step", *names)
                self._observations[index] = require_observation(self.observation_space, observation, index)
                reward[index] = _number(paid, index)
                terminated[index], truncated[index] = flags
        self._ended = terminated | truncated
        return Row(self._batch(), reward, terminated, truncated, *_games(infos), self._success(infos))

    def close(self) -> None:
        """Close all copies, also if some of them fail."""
        with ExitStack() as stack:
            for index, env in enumerate(self._envs):
                stack.enter_context(failures_of(index, "close"))
                stack.callback(env.close)

    def _require_same_spaces(self) -> None:
        for index in range(len(self._envs)):
            for name, space in zip(SPACES, self._spaces(index), strict=True):
                if space != getattr(self, name):
                    spaces = f"{one_line(space)}, but that of environment 0 is {getattr(self, name)}"
                    raise FaultyEnvError(index, f"its {name} is {one_line(spaces)}; all copies must have the same")

    def _spaces(self, index: int) -> tuple[Space, ...]:
        with failures_of(index, " or ".join(SPACES)):
            spaces: tuple[Any, ...] = tuple(getattr(self._envs[index], name, None) for name in SPACES)
        for name, space in zip(SPACES, spaces, strict=True):
            if not isinstance(space, Space):
                raise FaultyEnvError(index, f"its {name} must be one of gymnasium.spaces, not {one_line(space)}")
        return spaces

    def _reset(self, index: int, **arguments: Any) -> dict[str, Any]:
        returned = self._envs[index].reset(**arguments)
        observation, info = require_values(returned, index, "reset", "observation", "info")
        self._observations[index] = require_observation(self.observation_space, observation, index)
        return info

    def _batch(self) -> Any:
        batch = create_empty_array(self.observation_space, len(self._envs), np.zeros)
        return concatenate(self.observation_space, self._observations, batch)

    def _success(self, infos: list[dict[str, Any]]) -> np.ndarray | None:
        """Only the info of the last step of an episode counts."""
        if not any(SUCCESS in info for info in infos):
            return None
        success = np.zeros(len(infos), bool)
        for index in np.flatnonzero(self._ended).tolist():
            value = infos[index].get(SUCCESS, False)
            if np.size(value) != 1:
                raise FaultyEnvError(index, f'step returned info["{SUCCESS}"] = {one_line(value)}, not a bool')
            success[index] = bool(np.asarray(value).item())
        return success


def require_values(returned: Any, index: int, function: str, *names: str) -> Any:
    """Check that a function returned the values of Gymnasium's interface, and pass them on."""
    if not isinstance(returned, tuple) or len(returned) != len(names):
        number = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        expected = f"{function} must return the {len(names)} values {', '.join(names)}"
        raise FaultyEnvError(index, f"{expected}, not {number}")
    if not isinstance(returned[-1], dict):
        raise FaultyEnvError(index, f"{function} must return a dictionary as info, not {one_line(returned[-1])}")
    return returned


def require_observation(space: Space, value: Any, index: int, name: str = "observation") -> Any:
    """Check the structure and the shapes of an observation, and its choices, and pass it on."""
    if isinstance(space, Dict | Tuple):
        inner: dict[Any, Space] = dict(space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces))
        found = value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, tuple) else {}
        for key, part in inner.items():
            if key not in found:
                got = f"the keys {', '.join(map(repr, found))}" if found else f"a {type(value).__name__}"
                raise FaultyEnvError(index, f"{name} lacks {key!r}; expected {one_line(space)}, got {got}")
            require_observation(part, found[key], index, f"{name}[{key!r}]")
    elif isinstance(space, Box | MultiBinary | MultiDiscrete | Discrete):
        array = np.asarray(value)
        if array.shape != space.shape and value is not None:
            raise FaultyEnvError(index, f"{name} has the shape {array.shape}, but its space has {space.shape}")
        if not np.can_cast(array.dtype, np.dtype(space.dtype), "same_kind"):
            kind = "None" if value is None else f"of dtype {array.dtype}"
            raise FaultyEnvError(index, f"{name} is {kind}, but its space has the dtype {space.dtype}")
        if isinstance(space, MultiDiscrete | Discrete) and not _has(space, array):
            raise FaultyEnvError(index, f"{name} is {one_line(array)}, which is not in {one_line(space)}")
    return value


def _has(space: MultiDiscrete | Discrete, array: np.ndarray) -> bool:
    """Whether values of the right shape are choices of a space."""
    if isinstance(space, Discrete):  # Python is faster than NumPy for one number
        return 0 <= array.item() - int(space.start) < int(space.n)
    return bool(((space.start <= array) & (array < space.start + space.nvec)).all())


def _number(reward: Any, index: int) -> float:
    if type(reward) is float:
        return reward
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        kind = f"an array of shape {array.shape}" if array.ndim else one_line(reward)
        raise FaultyEnvError(index, f"the reward is {kind}, not a number")
    return float(array.item())


def _of_atari(info: dict[str, Any]) -> dict[str, Any]:
    """The entries of the info of a reset that count: those of the Atari wrapper."""
    return {key: info[key] for key in (SCORE, GAME_OVER) if key in info}


def _games(infos: list[dict[str, Any]]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The points and the ends of Atari games, which the Atari wrapper reports in every info."""
    if SCORE not in infos[0]:
        return None, None
    return np.array([info[SCORE] for info in infos], np.float32), np.array([info[GAME_OVER] for info in infos])
