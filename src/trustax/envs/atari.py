"""The usual Atari preprocessing, as options of EnvPool and as Gymnasium wrappers that do the same.

One step repeats an action for four frames. The last two frames are pooled by their maximum, converted to grayscale and
resized to 84 by 84; an observation stacks the last four of these images. A game starts with 1 to 30 no-op frames, the
last of which presses FIRE in games that have the button. Learning uses the sign of the reward, and an episode ends with
each life. The info also reports the game itself: its points in `SCORE`, and whether it has ended in `GAME_OVER`.

How EnvPool 1.2.5 behaves with these options, according to its source code and to measurements:

- On a lost life `terminated` is True and `info["terminated"]`, the end of the game, is 0. `info["reward"]` is the
  reward before its sign is taken.
- The row after a lost life continues the same game: 1 to `noop_max` frames, the last with FIRE. Its reward and
  `info["reward"]` are 0, so points gained or lost in these frames are not counted. The observation adds one image
  and keeps three from the lost life. `info["elapsed_step"]` does not change. After the end of a game the row starts a
  new game: four equal images, `elapsed_step` 0.
- If a game ends within the frames after a lost life, a new game starts, and the end is not reported. With FIRE as the
  last frame, this row may also have `info["terminated"]` = 1 although no episode ends; so the field is used only
  where an episode ends.
- Losing the last life is not reported as a lost life but as the end of the game, in some games a few steps later.
- The time limit of 27,000 steps applies to the whole game, across its lives. The step that reaches it reports only
  `truncated`, even if a life is lost or the game ends at this step, and the next row starts a new game.

Gymnasium applies the limit as 108,000 frames, including those before the first step. At the end of a game it returns
the image of the step before, while EnvPool pools the last frames that there were.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

FRAME_SKIP = 4
NUM_STACKED = 4
NOOP_MAX = 30
FRAMES_PER_SECOND = 60

ALE_OPTIONS: dict[str, Any] = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": False}
"""Options of `gymnasium.make` for `ALE/` ids, which leave the preprocessing to `preprocess`."""

SCORE, GAME_OVER = "trustax/score", "trustax/game_over"
"""Keys of the info of a preprocessed game; their names are unlikely to be those of another environment."""

_CONTINUE_GAME = "continue_game"


def is_atari(env_id: str) -> bool:
    """Whether an id without an engine prefix, in the form of Gymnasium or EnvPool, is an Atari game.

    >>> is_atari("ALE/Breakout-v5"), is_atari("Breakout-v5"), is_atari("Hopper-v5")
    (True, True, False)
    """
    return env_id.startswith("ALE/") or _is_envpool_atari(env_id) or f"ALE/{env_id}" in _ale_ids()


def envpool_id(env_id: str) -> str:
    """The id of a game in EnvPool.

    >>> envpool_id("ALE/Breakout-v5")
    'Breakout-v5'
    """
    return env_id.removeprefix("ALE/").replace("TicTacToe3D", "TicTacToe3d")


def gymnasium_id(env_id: str) -> str:
    """The id of a game in Gymnasium.

    >>> gymnasium_id("Breakout-v5")
    'ALE/Breakout-v5'
    """
    return f"ALE/{env_id.removeprefix('ALE/')}".replace("TicTacToe3d", "TicTacToe3D")


def _is_envpool_atari(env_id: str) -> bool:
    try:
        from envpool.registration import registry
    except ImportError:
        return False
    return registry.specs.get(env_id, ("",))[0] == "envpool.atari"


def _ale_ids() -> Any:
    try:
        import ale_py
    except ImportError:
        return ()
    gymnasium.register_envs(ale_py)
    return gymnasium.registry


def envpool_options(env_id: str) -> dict[str, Any]:
    """Options of `envpool.make` for an Atari game; none for other environments."""
    if not _is_envpool_atari(env_id):
        return {}
    return {
        "episodic_life": True,
        "reward_clip": True,
        "use_fire_reset": True,
        "noop_max": NOOP_MAX,
        "frame_skip": FRAME_SKIP,
        "stack_num": NUM_STACKED,
        "repeat_action_probability": ALE_OPTIONS["repeat_action_probability"],
        "full_action_space": ALE_OPTIONS["full_action_space"],
    }


def raw_reward_and_game_over(info: Any, terminated: Any, truncated: Any) -> tuple[Any, Any]:
    """The points of a game in this step and whether it ended, from EnvPool's info; NumPy or JAX."""
    return info["reward"], truncated | (terminated & (info["terminated"] != 0))


def preprocess(env: gymnasium.Env, noop_max: int = NOOP_MAX) -> gymnasium.Env:
    """Wrap a game that was made with `ALE_OPTIONS` for learning; its info has `SCORE` and `GAME_OVER`."""
    frames = AtariPreprocessing(_StartFrames(env, noop_max), noop_max=0, frame_skip=FRAME_SKIP)
    return _EpisodicLife(FrameStackObservation(frames, NUM_STACKED))


class _StartFrames(gymnasium.Wrapper):
    """Plays the frames before the first step of a game or of a life."""

    def __init__(self, env: gymnasium.Env, noop_max: int) -> None:
        super().__init__(env)
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        self._noop_max = noop_max
        self._last_action = meanings.index("FIRE" if "FIRE" in meanings else "NOOP")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if not (options or {}).get(_CONTINUE_GAME):
            self.env.reset(seed=seed)
        frames = int(self.np_random.integers(1, self._noop_max + 1))
        for frames_left in reversed(range(frames)):
            observation, _, terminated, truncated, info = self.env.step(0 if frames_left else self._last_action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class _EpisodicLife(gymnasium.Wrapper):
    """Ends an episode with each life, and returns the sign of the reward.

    A reset after a lost life continues the game, unless it gets a seed, which starts a new game.
    """

    env: FrameStackObservation

    def __init__(self, env: FrameStackObservation) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "render_fps": FRAMES_PER_SECOND // FRAME_SKIP}
        self._life_lost = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        continue_game = self._life_lost and seed is None
        previous_images = list(self.env.obs_queue)[1:]
        observation, info = self.env.reset(seed=seed, options={_CONTINUE_GAME: continue_game})
        if continue_game:
            # Keep the images of the lost life; the reset has filled the queue with copies of the newest image.
            self.env.obs_queue.extend([*previous_images, observation[-1]])
            observation = np.stack(self.env.obs_queue)
        self._life_lost, self._lives = False, self._lives_left()
        return observation, {**info, SCORE: 0.0, GAME_OVER: False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        lives_before, self._lives = self._lives, self._lives_left()
        score, over = float(reward), terminated or truncated
        self._life_lost = 0 < self._lives < lives_before and not over
        info = {**info, SCORE: score, GAME_OVER: over}
        return observation, float(np.sign(score)), terminated or self._life_lost, truncated, info

    def _lives_left(self) -> int:
        return self.unwrapped.ale.lives()  # type: ignore[attr-defined]
