"""The observation of MiniGrid tasks, which is the same for all engines.

MiniGrid returns a dictionary: the `image` of the 7 x 7 tiles ahead of the agent (kind, color and condition of each),
its `direction`, and a `mission` in English. Here a policy gets one vector:

- the flattened image;
- the direction as a one-hot vector;
- for each word that may differ between missions: 1 if the mission contains it, else 0.
"""

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

VIEW_SIZE = 7
DIRECTIONS = 4
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
"""in MiniGrid's order"""
OBJECTS = ("door", "key", "ball", "box")
MISSION_LENGTH = 96
"""the number of letters in EnvPool's missions, including padding"""

_MISSION_WORDS: dict[str, tuple[str, ...]] = {"MiniGrid-Unlock-v0": (), "MiniGrid-UnlockPickup-v0": COLORS}


def is_minigrid(env_id: str) -> bool:
    """Whether an id belongs to MiniGrid.

    >>> is_minigrid("MiniGrid-Unlock-v0"), is_minigrid("CartPole-v1")
    (True, False)
    """
    return env_id.startswith("MiniGrid-")


def mission_words(env_id: str) -> tuple[str, ...]:
    """The words of the mission that an observation includes.

    If the mission names two objects, as in "put the red ball near the blue box", their order is lost.

    >>> mission_words("MiniGrid-Unlock-v0"), len(mission_words("MiniGrid-Fetch-5x5-N2-v0"))
    ((), 10)
    """
    return _MISSION_WORDS.get(env_id, COLORS + OBJECTS)


def observation_size(env_id: str) -> int:
    """The size of an observation.

    >>> observation_size("MiniGrid-Unlock-v0"), observation_size("MiniGrid-UnlockPickup-v0")
    (151, 157)
    """
    return VIEW_SIZE * VIEW_SIZE * 3 + DIRECTIONS + len(mission_words(env_id))


def observation_space(env_id: str) -> Box:
    return Box(0, 255, (observation_size(env_id),), np.float32)


def to_vector(env_id: str, observation: Mapping[str, Any]) -> Any:
    """Convert EnvPool's dictionary to vectors, in NumPy or JAX; leading batch axes are allowed.

    `image` is `... 7 7 3`, `direction` is `...`, and `mission` is `... 96` bytes of ASCII, padded with zeros.
    """
    image, direction, mission = (observation[part] for part in ("image", "direction", "mission"))
    arrays = image.__array_namespace__()
    tiles = image.reshape(*image.shape[:-3], -1)
    flags = [direction == number for number in range(DIRECTIONS)]
    flags += [_mentions(mission, word) for word in mission_words(env_id)]
    return arrays.concat([tiles.astype(np.float32), arrays.stack(flags, axis=-1).astype(np.float32)], axis=-1)


def _mentions(mission: Any, word: str) -> Any:
    """Whether the mission contains a word: whether all of its letters match at any position."""
    num_offsets = mission.shape[-1] - len(word) + 1
    letters = [mission[..., offset : offset + num_offsets] == letter for offset, letter in enumerate(word.encode())]
    return reduce(and_, letters).any(axis=-1)


class SymbolicView(gymnasium.ObservationWrapper):
    """Wraps an environment of the `minigrid` package to return this vector, and `is_success` in each step's info."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._env_id = env.spec.id if env.spec else ""
        self.observation_space = observation_space(self._env_id)

    def observation(self, observation: Mapping[str, Any]) -> np.ndarray:
        mission = observation["mission"].encode().ljust(MISSION_LENGTH, b"\0")
        return to_vector(
            self._env_id,
            {
                "image": observation["image"],
                "direction": np.asarray(observation["direction"]),
                "mission": np.frombuffer(mission, np.uint8),
            },
        )

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        # Lava, for example, also terminates an episode, but without a reward.
        success = bool(terminated and float(reward) > 0)
        return observation, reward, terminated, truncated, info | {"is_success": success}
