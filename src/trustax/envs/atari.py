"""Atari's usual preprocessing: what EnvPool is extended to do, and Gymnasium wrappers that do the same.

Four frames are one step, the last two pooled by their maximum, grey and 84 by 84, and an observation is the last
four of these images. A game begins with 1 to 30 frames of doing nothing, the last of which presses FIRE in games that
have the button. Learning sees the sign of the reward, and an episode that ends with each life. What is reported beside
it, `score` and `over`, is the game's own: its points, and whether the game itself has ended.

EnvPool 1.2.5 with these options, read in its source and measured:

- On a lost life `terminated` is True and `info["terminated"]`, the game's own end, is 0. `info["reward"]` is the reward
  before its sign was taken.
- The row after a lost life goes on with the same game: 1 to `noop_max` frames, the last with FIRE. Its reward and
  `info["reward"]` are 0, so what is scored or lost in these frames counts nowhere. The observation takes in one image
  and keeps three of the lost life. `info["elapsed_step"]` stands still. After a game's end the row begins a new game:
  four equal images, `elapsed_step` 0.
- A game that ends within the frames after a lost life begins anew without being reported. With FIRE as the last frame
  it may also happen that this row says `info["terminated"]` 1 and is no ending; so the field counts only on endings.
- Losing the last life is no lost life but the game's end, which some games show a few steps later.
- The time limit of 27,000 steps is that of the game, across its lives. The step that reaches it says `truncated` alone,
  also where a life is lost or the game ends on it, and the next row begins a new game.

Gymnasium counts the limit as 108,000 frames, those before the first step included. Where a game ends, its last image is
that of the step before, while EnvPool shows as many of the last frames as there were.
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
"""What `gymnasium.make` is given for an id of `ALE/`, so that `preprocess` can do the rest."""

_GO_ON = "go_on"


def is_atari(env_id: str) -> bool:
    """Whether an id without an engine, as Gymnasium or as EnvPool writes it, is an Atari game.

    >>> is_atari("ALE/Breakout-v5"), is_atari("Breakout-v5"), is_atari("Hopper-v5")
    (True, True, False)
    """
    return env_id.startswith("ALE/") or _envpool_says(env_id) or f"ALE/{env_id}" in _ale_ids()


def envpool_id(env_id: str) -> str:
    """A game's id in EnvPool.

    >>> envpool_id("ALE/Breakout-v5")
    'Breakout-v5'
    """
    return env_id.removeprefix("ALE/").replace("TicTacToe3D", "TicTacToe3d")


def gymnasium_id(env_id: str) -> str:
    """A game's id in Gymnasium.

    >>> gymnasium_id("Breakout-v5")
    'ALE/Breakout-v5'
    """
    return f"ALE/{env_id.removeprefix('ALE/')}".replace("TicTacToe3d", "TicTacToe3D")


def _envpool_says(env_id: str) -> bool:
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
    """What `envpool.make` is extended of an Atari game; nothing of anything else."""
    if not _envpool_says(env_id):
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
    """What EnvPool's information says of a game: its points in this step, and whether it ended; NumPy or JAX."""
    return info["reward"], truncated | (terminated & (info["terminated"] != 0))


def preprocess(env: gymnasium.Env, noop_max: int = NOOP_MAX) -> gymnasium.Env:
    """A game that was made with `ALE_OPTIONS`, as a learner sees it; `score` and `over` are in its information."""
    frames = AtariPreprocessing(_Opening(env, noop_max), noop_max=0, frame_skip=FRAME_SKIP)
    return _Lives(FrameStackObservation(frames, NUM_STACKED))


class _Opening(gymnasium.Wrapper):
    """The frames before the first step of a game or of a life."""

    def __init__(self, env: gymnasium.Env, noop_max: int) -> None:
        super().__init__(env)
        meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        self._noop_max = noop_max
        self._last = meanings.index("FIRE" if "FIRE" in meanings else "NOOP")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if not (options or {}).get(_GO_ON):
            self.env.reset(seed=seed)
        frames = int(self.np_random.integers(1, self._noop_max + 1))
        for left in reversed(range(frames)):
            observation, _, terminated, truncated, info = self.env.step(0 if left else self._last)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class _Lives(gymnasium.Wrapper):
    """An episode for each life, and the sign of the reward.

    A reset after a lost life goes on with the game, unless it is given a seed: that asks for a new one.
    """

    env: FrameStackObservation

    def __init__(self, env: FrameStackObservation) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "render_fps": FRAMES_PER_SECOND // FRAME_SKIP}
        self._goes_on = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        going_on = self._goes_on and seed is None
        lost = list(self.env.obs_queue)[1:]
        observation, info = self.env.reset(seed=seed, options={_GO_ON: going_on})
        if going_on:
            # The images of the lost life stay in sight; stacking anew has filled the queue with the newest.
            self.env.obs_queue.extend([*lost, observation[-1]])
            observation = np.stack(self.env.obs_queue)
        self._goes_on, self._lives = False, self._lives_left()
        return observation, {**info, "score": 0.0, "over": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._lives = self._lives, self._lives_left()
        score, over = float(reward), terminated or truncated
        self._goes_on = 0 < self._lives < before and not over
        extended = {**info, "score": score, "over": over}
        return observation, float(np.sign(score)), terminated or self._goes_on, truncated, extended

    def _lives_left(self) -> int:
        return self.unwrapped.ale.lives()  # type: ignore[attr-defined]
