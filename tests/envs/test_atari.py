"""Atari in Gymnasium against Atari in EnvPool, image by image, and their reports of the game."""

import functools
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from trustax.envs.atari import (
    ALE_OPTIONS,
    GAME_OVER,
    SCORE,
    envpool_id,
    envpool_options,
    gymnasium_id,
    is_atari,
    preprocess,
    raw_reward_and_game_over,
)

envpool = pytest.importorskip("envpool")
ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)

ONE_FRAME = {"noop_max": 1}
"""Then a game or life starts with a single frame, so that nothing is random."""


class Row(NamedTuple):
    """The result of one step, or of the reset after the end of an episode."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    raw_reward: float
    game_over: bool
    lives: int
    ram: np.ndarray


def actions(game: str, count: int) -> list[int]:
    return np.random.default_rng(0).integers(0, {"Breakout": 4, "SpaceInvaders": 6}[game], count).tolist()


@functools.cache
def by_envpool(game: str, count: int, **options: Any) -> list[Row]:
    env = envpool.make(f"{game}-v5", env_type="gymnasium", num_envs=1, **envpool_options(f"{game}-v5") | options)
    env.reset()
    rows = []
    for action in actions(game, count):
        observation, reward, terminated, truncated, info = env.step(np.array([action], np.int32))
        reported = (*raw_reward_and_game_over(info, terminated, truncated), info["lives"], info["ram"])
        rows.append(Row(*(leaf[0] for leaf in (observation, reward, terminated, truncated, *reported))))
    env.close()
    return rows


def made(game: str, **options: Any) -> gymnasium.Env:
    return preprocess(gymnasium.make(f"ALE/{game}-v5", **ALE_OPTIONS), **options)


@functools.cache
def by_gymnasium(game: str, count: int) -> list[Row]:
    env = made(game, **ONE_FRAME)
    env.reset(seed=0)
    rows, ended = [], False
    for action in actions(game, count):
        if ended:
            observation, info = env.reset()
            outcome: Any = 0.0, False, False
        else:
            observation, *outcome, info = env.step(action)
        ended = any(outcome[1:])
        ram = env.unwrapped.ale.getRAM()  # type: ignore[attr-defined]
        rows.append(Row(observation, *outcome, info[SCORE], info[GAME_OVER], info["lives"], ram))
    env.close()
    return rows


def together(rows: list[Row]) -> Row:
    return Row(*map(np.array, zip(*rows, strict=True)))


@pytest.mark.parametrize(("game", "count"), [("Breakout", 250), ("SpaceInvaders", 500)])
def test_both_engines_play_the_same_game(game: str, count: int) -> None:
    ours, theirs = (together(rows) for rows in (by_gymnasium(game, count), by_envpool(game, count, **ONE_FRAME)))
    assert ours.observation.dtype == theirs.observation.dtype == np.uint8
    assert ours.observation.shape[1:] == (4, 84, 84)
    for name in ("reward", "terminated", "truncated", "raw_reward", "game_over", "lives", "ram"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    # Where a game ends within its four frames, the two engines show different ones.
    np.testing.assert_array_equal(ours.observation[~ours.game_over], theirs.observation[~ours.game_over])
    assert ours.game_over.any()
    assert (ours.terminated & ~ours.game_over).any()


def test_rewards_are_signs_and_raw_rewards_are_reported() -> None:
    rows = together(by_gymnasium("SpaceInvaders", 500))
    assert set(rows.raw_reward) >= {0.0, 5.0, 10.0}
    np.testing.assert_array_equal(rows.reward, np.sign(rows.raw_reward))


def test_a_lost_life_ends_an_episode_but_not_the_game() -> None:
    rows = together(by_gymnasium("Breakout", 250))
    (ends,) = np.nonzero(rows.terminated)
    np.testing.assert_array_equal(rows.lives[ends][:5], [4, 3, 2, 1, 0])
    np.testing.assert_array_equal(rows.game_over[ends][:5], [False] * 4 + [True])
    # The next row continues with the remaining life, and later with a new game.
    np.testing.assert_array_equal(rows.lives[ends + 1][:5], [4, 3, 2, 1, 5])
    assert not rows.raw_reward[ends + 1].any()
    before, after = rows.observation[ends[0]], rows.observation[ends[0] + 1]
    np.testing.assert_array_equal(after[:3], before[1:])
    new_game = rows.observation[ends[4] + 1]
    assert (new_game == new_game[:1]).all()


def test_envpools_time_limit_only_truncates_the_game() -> None:
    # A life is lost on step 24; the limit counts the steps of the game, not of the life.
    def endings(limit: int) -> list[tuple[int, bool, bool, bool]]:
        rows = by_envpool("Breakout", 30, **ONE_FRAME, max_episode_steps=limit)
        return [
            (step, bool(row.terminated), bool(row.truncated), bool(row.game_over))
            for step, row in enumerate(rows)
            if row.terminated or row.truncated
        ]

    (lost, *flags), *_ = endings(27_000)
    assert flags == [True, False, False]
    assert endings(lost + 1) == [(lost, False, True, True)]
    assert endings(lost + 3)[:2] == [(lost, True, False, False), (lost + 3, False, True, True)]


def test_gymnasiums_time_limit_truncates_the_game() -> None:
    env = preprocess(gymnasium.make("ALE/Breakout-v5", **ALE_OPTIONS, max_num_frames_per_episode=41), **ONE_FRAME)
    env.reset(seed=0)
    for step in range(1, 11):
        *_, terminated, truncated, info = env.step(0)
        assert (terminated, truncated, info[GAME_OVER]) == (False, step == 10, step == 10)


def test_a_reset_with_a_seed_starts_a_new_game_with_the_same_frames() -> None:
    env = made("Breakout")
    first, _ = env.reset(seed=3)
    terminated = False
    while not terminated:
        _, _, terminated, _, info = env.step(0)
    assert not info[GAME_OVER]
    again, info = env.reset(seed=3)
    assert info["lives"] == 5
    np.testing.assert_array_equal(again, first)
    openings = [env.reset(seed=seed)[1]["episode_frame_number"] for seed in range(20)]
    assert 1 <= min(openings) < max(openings) <= 30
    assert env.metadata["render_fps"] == 15


def test_ids() -> None:
    games = [name for name in envpool.list_all_envs() if is_atari(name)]
    assert len(games) > 100
    assert {gymnasium_id(name) for name in games} <= set(gymnasium.registry)
    assert [envpool_id(gymnasium_id(name)) for name in games] == games
    assert all(map(is_atari, map(gymnasium_id, games)))
    assert not any(map(is_atari, ["Ant-v5", "CartPole-v1", "MiniGrid-Unlock-v0", "NoSuchGame-v5"]))
    assert envpool_options("Ant-v5") == {}


def test_games_are_recognized_without_envpool(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "envpool.registration", None)
    assert is_atari("Breakout-v5")
    assert not is_atari("Ant-v5")
