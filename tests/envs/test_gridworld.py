"""Dynamics and view of the grid world against MiniGrid, in situations that the tasks do not reach."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.envs.jax.gridworld import DOOR, KEY, LOCKED, OPEN, TOGGLE, GridState, act, parts, tile, visible
from trustax.envs.minigrid import COLORS

pytest.importorskip("minigrid")

from minigrid.core.grid import Grid
from minigrid.core.world_object import Box, Key, Wall


def mazes(generator: np.random.Generator) -> np.ndarray:
    """Random tiles from open floor to narrow mazes, in which rows with few and many walls alternate."""
    few, many = generator.uniform(0, 0.3, (2, 600, 1, 1)) + np.array([0.0, 0.6]).reshape(2, 1, 1, 1)
    crowded = generator.uniform(size=(600, 1, 7)) < generator.uniform(size=(600, 1, 1))
    return generator.uniform(size=(600, 7, 7)) > np.where(crowded, many, few)


def test_visible_tiles_match_minigrid() -> None:
    transparent = mazes(np.random.default_rng(0))
    # The longest path: from side to side in every row, with one gap at each end.
    winding = np.ones((7, 7), bool)
    winding[:, [1, 3, 5]] = False
    winding[[0, 6, 0], [5, 3, 1]] = True
    transparent = np.concatenate([transparent, winding[None], winding[None, ::-1]])
    seen = np.asarray(jax.jit(jax.vmap(visible))(transparent))
    for ours, clear in zip(seen, transparent, strict=True):
        grid = Grid(7, 7)
        for place in np.argwhere(~clear):
            grid.set(*place, Wall())
        np.testing.assert_array_equal(ours, grid.process_vis((3, 6)))
    assert 0.2 < seen.mean() < 0.8
    assert seen[-2:].all()


@pytest.mark.parametrize("color", range(6))
@pytest.mark.parametrize("carried", [Key, Box])
def test_only_the_key_of_its_color_opens_a_door(carried: Any, color: int) -> None:
    env: Any = gymnasium.make("MiniGrid-Unlock-v0", disable_env_checker=True).unwrapped
    env.reset(seed=0)
    x, y = env.door.cur_pos
    env.agent_pos, env.agent_dir, env.carrying = np.array([x - 1, y]), 0, carried(COLORS[color])
    hand = tile(*env.carrying.encode())
    _, lock, _ = env.door.encode()
    grid = jnp.full((11, 6), 1).at[x, y].set(tile(DOOR, lock, LOCKED))
    state = act(GridState(grid, *map(jnp.int32, (x - 1, y, 0, hand, 0, 0))), jnp.int32(TOGGLE))
    env.step(TOGGLE)
    kind, color_of_door, condition = parts(state.grid[x, y])
    assert (kind, color_of_door, condition) == env.door.encode()
    assert (condition == OPEN) == (carried is Key and color == lock)
    assert (hand == tile(KEY, lock)) == (condition == OPEN)
