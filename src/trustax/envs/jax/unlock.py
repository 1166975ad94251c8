"""MiniGrid-Unlock-v0 and MiniGrid-UnlockPickup-v0 in JAX: two rooms, a locked door between them, and its key.

The layouts have the same distribution as MiniGrid's. MiniGrid samples positions until one is valid, so all valid
positions are equally likely; here one of them is sampled directly.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Key

from trustax.envs.jax.grid_picture import grid_picture
from trustax.envs.jax.gridworld import (
    BOX,
    DOOR,
    EMPTY,
    GRAY,
    KEY,
    LOCKED,
    WALL,
    GridState,
    act,
    at,
    heading,
    is_open_door,
    parts,
    tile,
    view,
)
from trustax.envs.minigrid import COLORS, DIRECTIONS, observation_size
from trustax.types import DiscreteActions, EnvSpec

ROOM = 4
"""The side of the square floor of a room."""
DOOR_X = ROOM + 1
TIME_LIMIT = 288

_CELLS = _X, _Y = np.indices((2 * DOOR_X + 1, ROOM + 2), np.int32)
_ROOMS = np.where((_X % DOOR_X == 0) | (_Y % (ROOM + 1) == 0), tile(WALL, GRAY), EMPTY).astype(np.int32)

# While MiniGrid places objects, the agent is at (8, 3); no object is placed there or on a neighboring cell.
_BOX_POSITIONS = (abs(_X - 8) + abs(_Y - 3) >= 2)[DOOR_X + 1 : DOOR_X + 1 + ROOM, 1 : 1 + ROOM]

# All poses of the agent in the left room, [direction, x, y]: its cell, and the cell ahead.
_DIRECTIONS, *_FLOOR = np.indices((DIRECTIONS, ROOM, ROOM), np.int32)
_POSITIONS = [1 + axis for axis in _FLOOR]
_AHEAD = [position + step for position, step in zip(_POSITIONS, heading(_DIRECTIONS), strict=True)]


def two_rooms(samples: Float[Array, "4"]) -> GridState:
    """A layout with the agent and the key in the left room, and a locked door to the right room, which is empty."""
    door = DOOR_X, 1 + _sample_number(samples[0], ROOM)
    color = _sample_number(samples[1], len(COLORS))
    key = [1 + axis for axis in jnp.divmod(_sample_number(samples[2], ROOM * ROOM), ROOM)]
    grid = jnp.where(at(door, _CELLS), tile(DOOR, color, LOCKED), _ROOMS)
    grid = jnp.where(at(key, _CELLS), tile(KEY, color), grid)
    # The agent starts neither on the key nor facing an object.
    direction, x, y = _sample_position(samples[3], ~(at(key, _POSITIONS) | at(key, _AHEAD) | at(door, _AHEAD)))
    return GridState(grid, 1 + x, 1 + y, direction, hand=jnp.int32(EMPTY), mission=jnp.int32(0), steps=jnp.int32(0))


def _sample_number(sample: Float[Array, ""], count: Any) -> Int[Array, ""]:
    """Map a uniform sample from [0, 1) to a number from 0 to `count` - 1."""
    return jnp.floor(sample * count).astype(jnp.int32)


def _sample_position(sample: Float[Array, ""], allowed: Any) -> tuple[Int[Array, ""], ...]:
    """The indices of one of the allowed positions, all equally likely."""
    # A cumulative sum; at this size a matrix product is faster than a scan.
    count = np.tri(allowed.size, dtype=np.float32) @ allowed.ravel().astype(np.float32)
    index = jnp.sum(count <= _sample_number(sample, count[-1]), dtype=jnp.int32)
    return jnp.unravel_index(index, allowed.shape)


def _outcome(
    state: GridState, reached: Bool[Array, ""], time_limit: int
) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
    """The episode terminates when the goal is reached; the sooner, the higher the reward."""
    return state, jnp.where(reached, 1.0 - 0.9 * state.steps / time_limit, 0.0), reached


@dataclass(frozen=True)
class Unlock:
    """MiniGrid-Unlock-v0: fetch the key and open the door."""

    time_limit: int = TIME_LIMIT
    frames_per_second: ClassVar[float] = 10.0
    spec: ClassVar[EnvSpec] = EnvSpec((observation_size("MiniGrid-Unlock-v0"),), DiscreteActions(7))

    def reset(self, key: Key[Array, ""]) -> GridState:
        return two_rooms(jax.random.uniform(key, (4,)))

    def step(self, state: GridState, action: Integer[Array, ""]) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
        new = act(state, action)
        return _outcome(new, self.succeeded(new), self.time_limit)

    def succeeded(self, state: GridState) -> Bool[Array, ""]:
        return jnp.any(is_open_door(state.grid))

    def render(self, state: GridState) -> np.ndarray:
        return grid_picture(state)

    def observe(self, state: GridState) -> Float[Array, "151"]:
        return _image_and_direction(state)


@dataclass(frozen=True)
class UnlockPickup:
    """MiniGrid-UnlockPickup-v0: fetch the key, open the door, and pick up the box in the other room.

    The agent cannot pick up the box while it carries the key: it has to drop the key first.
    """

    time_limit: int = TIME_LIMIT
    frames_per_second: ClassVar[float] = 10.0
    spec: ClassVar[EnvSpec] = EnvSpec((observation_size("MiniGrid-UnlockPickup-v0"),), DiscreteActions(7))

    def reset(self, key: Key[Array, ""]) -> GridState:
        samples = jax.random.uniform(key, (6,))
        state = two_rooms(samples[:4])
        x, y = _sample_position(samples[4], _BOX_POSITIONS)
        color = _sample_number(samples[5], len(COLORS))
        box = at((DOOR_X + 1 + x, 1 + y), _CELLS)
        return state._replace(grid=jnp.where(box, tile(BOX, color), state.grid), mission=color)

    def step(self, state: GridState, action: Integer[Array, ""]) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
        new = act(state, action)
        return _outcome(new, self.succeeded(new), self.time_limit)

    def succeeded(self, state: GridState) -> Bool[Array, ""]:
        kind, _, _ = parts(state.hand)
        return kind == BOX

    def render(self, state: GridState) -> np.ndarray:
        return grid_picture(state)

    def observe(self, state: GridState) -> Float[Array, "157"]:
        return jnp.concatenate([_image_and_direction(state), jax.nn.one_hot(state.mission, len(COLORS))])


def _image_and_direction(state: GridState) -> Float[Array, "151"]:
    return jnp.concatenate([view(state).ravel().astype(jnp.float32), jax.nn.one_hot(state.direction, DIRECTIONS)])
