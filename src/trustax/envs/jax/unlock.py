"""MiniGrid-Unlock-v0 and MiniGrid-UnlockPickup-v0 in JAX: two rooms, a locked door between them, and its key.

The layouts are drawn as MiniGrid's generator draws them. It tries places until one will do, so that all which
will do are equally likely; here one of those is drawn at once.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Key

from trustax.envs.jax.gridworld import (
    BOX,
    DOOR,
    EMPTY,
    GREY,
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
"""The floor of a room is a square of this side."""
DOOR_X = ROOM + 1
TIME_LIMIT = 288

_CELLS = _X, _Y = np.indices((2 * DOOR_X + 1, ROOM + 2), np.int32)
_ROOMS = np.where((_X % DOOR_X == 0) | (_Y % (ROOM + 1) == 0), tile(WALL, GREY), EMPTY).astype(np.int32)

# While MiniGrid places objects, its agent waits at (8, 3), and nothing is placed there or right beside it.
_BOX_PLACES = (abs(_X - 8) + abs(_Y - 3) >= 2)[DOOR_X + 1 : DOOR_X + 1 + ROOM, 1 : 1 + ROOM]

# Every way to stand in the left room, [direction, x, y]: the cell, and the one ahead of it.
_TURNS, *_FLOOR = np.indices((DIRECTIONS, ROOM, ROOM), np.int32)
_STANDS = [1 + axis for axis in _FLOOR]
_AHEAD = [stand + step for stand, step in zip(_STANDS, heading(_TURNS), strict=True)]


def two_rooms(lots: Float[Array, "4"]) -> GridState:
    """The agent and the key in the left room, and a locked door to the right one, which is empty."""
    door = DOOR_X, 1 + _number(lots[0], ROOM)
    color = _number(lots[1], len(COLORS))
    key = [1 + axis for axis in jnp.divmod(_number(lots[2], ROOM * ROOM), ROOM)]
    grid = jnp.where(at(door, _CELLS), tile(DOOR, color, LOCKED), _ROOMS)
    grid = jnp.where(at(key, _CELLS), tile(KEY, color), grid)
    # The agent starts neither on the key nor right before an object.
    direction, x, y = _place(lots[3], ~(at(key, _STANDS) | at(key, _AHEAD) | at(door, _AHEAD)))
    return GridState(grid, 1 + x, 1 + y, direction, hand=jnp.int32(EMPTY), mission=jnp.int32(0), steps=jnp.int32(0))


def _number(lot: Float[Array, ""], count: Any) -> Int[Array, ""]:
    """A number from 0 to `count` - 1; a lot is uniform between 0 and 1."""
    return jnp.floor(lot * count).astype(jnp.int32)


def _place(lot: Float[Array, ""], allowed: Any) -> tuple[Int[Array, ""], ...]:
    """The indices of one of the places that are allowed, each as likely as any other."""
    # A running count; at this size a matrix product is faster than a scan.
    count = np.tri(allowed.size, dtype=np.float32) @ allowed.ravel().astype(np.float32)
    index = jnp.sum(count <= _number(lot, count[-1]), dtype=jnp.int32)
    return jnp.unravel_index(index, allowed.shape)


def _outcome(
    state: GridState, reached: Bool[Array, ""], time_limit: int
) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
    """The episode ends where its goal is reached; the sooner, the higher the reward."""
    return state, jnp.where(reached, 1.0 - 0.9 * state.steps / time_limit, 0.0), reached


@dataclass(frozen=True)
class Unlock:
    """MiniGrid-Unlock-v0: fetch the key and open the door."""

    time_limit: int = TIME_LIMIT
    spec: ClassVar[EnvSpec] = EnvSpec((observation_size("MiniGrid-Unlock-v0"),), DiscreteActions(7))

    def reset(self, key: Key[Array, ""]) -> GridState:
        return two_rooms(jax.random.uniform(key, (4,)))

    def step(self, state: GridState, action: Integer[Array, ""]) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
        new = act(state, action)
        return _outcome(new, self.succeeded(new), self.time_limit)

    def succeeded(self, state: GridState) -> Bool[Array, ""]:
        return jnp.any(is_open_door(state.grid))

    def observe(self, state: GridState) -> Float[Array, "151"]:
        return _seen(state)


@dataclass(frozen=True)
class UnlockPickup:
    """MiniGrid-UnlockPickup-v0: fetch the key, open the door, and pick up the box in the other room.

    With the key in its hand the agent cannot take the box: it has to drop it first.
    """

    time_limit: int = TIME_LIMIT
    spec: ClassVar[EnvSpec] = EnvSpec((observation_size("MiniGrid-UnlockPickup-v0"),), DiscreteActions(7))

    def reset(self, key: Key[Array, ""]) -> GridState:
        lots = jax.random.uniform(key, (6,))
        state = two_rooms(lots[:4])
        x, y = _place(lots[4], _BOX_PLACES)
        color = _number(lots[5], len(COLORS))
        box = at((DOOR_X + 1 + x, 1 + y), _CELLS)
        return state._replace(grid=jnp.where(box, tile(BOX, color), state.grid), mission=color)

    def step(self, state: GridState, action: Integer[Array, ""]) -> tuple[GridState, Float[Array, ""], Bool[Array, ""]]:
        new = act(state, action)
        return _outcome(new, self.succeeded(new), self.time_limit)

    def succeeded(self, state: GridState) -> Bool[Array, ""]:
        kind, _, _ = parts(state.hand)
        return kind == BOX

    def observe(self, state: GridState) -> Float[Array, "157"]:
        return jnp.concatenate([_seen(state), jax.nn.one_hot(state.mission, len(COLORS))])


def _seen(state: GridState) -> Float[Array, "151"]:
    return jnp.concatenate([view(state).ravel().astype(jnp.float32), jax.nn.one_hot(state.direction, DIRECTIONS)])
