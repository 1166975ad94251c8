"""The observation of MiniGrid tasks, which is the same for all engines."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.envs.jax.gridworld import DOOR, EMPTY, GRAY, KEY, WALL, GridState, heading, tile
from trustax.envs.jax.unlock import Unlock
from trustax.envs.minigrid import COLORS, SymbolicView, is_minigrid, mission_words, observation_size, to_vector

pytest.importorskip("minigrid")

FETCH = "MiniGrid-Fetch-6x6-N2-v0"
LAVA = "MiniGrid-LavaGapS7-v0"


def as_envpool_returns_them(observations: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Observations of the package as a batch of EnvPool's, whose missions are bytes."""
    missions = [np.frombuffer(one["mission"].encode().ljust(96, b"\0"), np.uint8) for one in observations]
    return {
        "image": np.stack([one["image"] for one in observations]),
        "direction": np.array([one["direction"] for one in observations], np.int32),
        "mission": np.stack(missions),
    }


@pytest.mark.parametrize("env_id", ["MiniGrid-Unlock-v0", "MiniGrid-UnlockPickup-v0", FETCH])
def test_envpools_dictionary_and_the_wrapped_package_give_the_same_vectors(env_id: str) -> None:
    env = gymnasium.make(env_id, disable_env_checker=True)
    observations = [env.reset(seed=seed)[0] for seed in range(12)]
    wrapped = SymbolicView(env)
    expected = np.stack([wrapped.reset(seed=seed)[0] for seed in range(12)])
    assert wrapped.observation_space.contains(expected[0])

    batch = as_envpool_returns_them(observations)
    np.testing.assert_array_equal(to_vector(env_id, batch), expected, strict=True)
    wide = jax.tree.map(lambda leaf: jnp.asarray(leaf.reshape(3, 4, *leaf.shape[1:])), batch)
    ours = jax.jit(lambda wide: to_vector(env_id, wide))(wide)
    assert ours.dtype == jnp.float32
    np.testing.assert_array_equal(ours.reshape(12, -1), expected)


@pytest.mark.parametrize("env_id", ["MiniGrid-Unlock-v0", "MiniGrid-UnlockPickup-v0", FETCH])
def test_the_parts_of_an_observation(env_id: str) -> None:
    env = gymnasium.make(env_id, disable_env_checker=True)
    wrapped = SymbolicView(env)
    missions = set()
    for seed in range(12):
        plain, _ = env.reset(seed=seed)
        vector, _ = wrapped.reset(seed=seed)
        assert vector.shape == (observation_size(env_id),)
        np.testing.assert_array_equal(vector[:147], plain["image"].ravel())
        np.testing.assert_array_equal(vector[147:151], np.eye(4)[plain["direction"]])
        words = [word for word, has in zip(mission_words(env_id), vector[151:], strict=True) if has]
        assert set(words) == set(plain["mission"].split()) & set(mission_words(env_id))
        assert len(words) == (0 if env_id == "MiniGrid-Unlock-v0" else 1 if "Pickup" in env_id else 2)
        missions.add(tuple(words))
    assert len(missions) > 3 or env_id == "MiniGrid-Unlock-v0"


def test_colors_match_minigrid() -> None:
    from minigrid.core.constants import COLOR_TO_IDX

    assert {color: index for index, color in enumerate(COLORS)} == COLOR_TO_IDX


def test_ids_and_observation_sizes() -> None:
    assert is_minigrid("MiniGrid-Unlock-v0")
    assert not is_minigrid("Pendulum-v1")
    sizes = {"MiniGrid-Unlock-v0": 151, "MiniGrid-UnlockPickup-v0": 157, "MiniGrid-DoorKey-5x5-v0": 161}
    assert {env_id: observation_size(env_id) for env_id in sizes} == sizes


def test_each_step_reports_success() -> None:
    """Walking straight ahead ends in lava without success, or at the goal with success."""
    outcomes = []
    for env_id, actions in {LAVA: [2] * 6, "MiniGrid-Empty-5x5-v0": [2, 2, 1, 2, 2]}.items():
        env = SymbolicView(gymnasium.make(env_id, disable_env_checker=True))
        env.reset(seed=1)
        for action in actions:
            _, _, terminated, _, info = env.step(action)
            outcomes.append((terminated, info["is_success"]))
            if terminated:
                break
    assert set(outcomes) == {(False, False), (True, False), (True, True)}


def layouts_in_full_view(image: np.ndarray, direction: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, Any]:
    """Which of EnvPool's games show both the door and the key, and their states in JAX."""
    chosen = np.flatnonzero([{DOOR, KEY} <= set(kinds) for kinds in image[..., 0].reshape(len(image), -1)])
    states = []
    for game in chosen:
        x, y = np.indices((11, 6), np.int32)
        grid = np.where((x % 5 == 0) | (y % 5 == 0), tile(WALL, GRAY), EMPTY).astype(np.int32)
        dx, dy = heading(direction[game])
        for column, row in np.argwhere(np.isin(image[game, ..., 0], [DOOR, KEY])):
            ahead, aside = 6 - row, column - 3
            place = position[game] + ahead * np.array([dx, dy]) + aside * np.array([-dy, dx])
            grid[tuple(place)] = tile(*image[game, column, row].astype(np.int32))
        scalars = (*position[game], direction[game], EMPTY, 0, 0)
        states.append(GridState(grid, *(np.int32(scalar) for scalar in scalars)))
    return chosen, jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def test_envpool_and_the_environment_in_jax_play_the_same_game() -> None:
    pool = pytest.importorskip("envpool").make("MiniGrid-Unlock-v0", env_type="gymnasium", num_envs=256, seed=5)
    first, info = pool.reset()
    chosen, states = layouts_in_full_view(first["image"], first["direction"], info["agent_pos"])
    task = Unlock()
    seen = to_vector("MiniGrid-Unlock-v0", first)[chosen]
    assert seen.shape == (len(chosen), observation_size("MiniGrid-Unlock-v0"))
    np.testing.assert_array_equal(jax.vmap(task.observe)(states), seen)

    step = jax.jit(jax.vmap(task.step))
    observe = jax.jit(jax.vmap(task.observe))
    generator = np.random.default_rng(0)
    running, carried, opened = np.ones(len(chosen), bool), 0, 0
    for _ in range(287):
        action = generator.integers(0, 7, 256).astype(np.int32)
        observation, reward, terminated, *_ = pool.step(action)
        states, our_reward, our_terminated = step(states, action[chosen])
        theirs, ours = to_vector("MiniGrid-Unlock-v0", observation)[chosen], observe(states)
        np.testing.assert_array_equal(np.asarray(ours)[running], theirs[running])
        np.testing.assert_allclose(np.asarray(our_reward)[running], reward[chosen][running], atol=1e-6)
        np.testing.assert_array_equal(np.asarray(our_terminated)[running], terminated[chosen][running])
        opened += int(np.sum(terminated[chosen] & running))
        running &= ~terminated[chosen]
        carried += int(np.sum((np.asarray(states.hand) != EMPTY) & running))
    assert carried > 100
    assert opened > 0
    pool.close()


def test_envpool_names_the_color_of_the_box() -> None:
    pool = pytest.importorskip("envpool").make("MiniGrid-UnlockPickup-v0", env_type="gymnasium", num_envs=64, seed=5)
    observation, _ = pool.reset()
    vector = to_vector("MiniGrid-UnlockPickup-v0", observation)
    assert vector.shape == (64, 157)
    missions = [bytes(mission).rstrip(b"\0").decode() for mission in observation["mission"]]
    assert missions == [f"pick up the {COLORS[color]} box" for color in vector[:, 151:].argmax(axis=1)]
    np.testing.assert_array_equal(vector[:, 151:].sum(axis=1), 1)
    pool.close()
