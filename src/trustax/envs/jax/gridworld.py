"""MiniGrid's dynamics and view in JAX: an agent that can carry one object, on a grid of tiles.

A tile is one integer: its kind, its color, and for a door its condition, with MiniGrid's numbers in four bits each.
Empty floor is also a tile, and so is an empty hand. So picking up and dropping are the same operation: the hand and the
cell ahead swap their tiles.

Tasks define layouts and goals (`trustax.envs.jax.unlock`). Only the objects that these tasks need are implemented.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from trustax.envs.minigrid import VIEW_SIZE

UNSEEN, EMPTY, WALL, DOOR, KEY, BOX = 0, 1, 2, 4, 5, 7
OPEN, CLOSED, LOCKED = 0, 1, 2
GRAY = 5
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

# The view has MiniGrid's axes [column, row]; the agent is in the middle of the bottom row and looks up.
_COLUMN, _ROW = np.indices((VIEW_SIZE, VIEW_SIZE), np.int32)
_AHEAD = VIEW_SIZE - 1 - _ROW
_ASIDE = _COLUMN - VIEW_SIZE // 2
_AGENT = (_AHEAD == 0) & (_ASIDE == 0)


class GridState(NamedTuple):
    """The grid and the agent. The border of the grid consists of walls."""

    grid: Int[Array, "width height"]
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]
    """0 to 3: right, down, left, up"""
    hand: Int[Array, ""]
    mission: Int[Array, ""]
    """the color that the mission names, if any"""
    steps: Int[Array, ""]


def tile(kind: Any, color: Any = 0, condition: Any = 0) -> Any:
    """Build a tile from its parts; empty floor is `EMPTY`.

    >>> parts(tile(DOOR, GRAY, LOCKED))
    (4, 5, 2)
    """
    return kind | color << 4 | condition << 8


def parts(tile: Any) -> tuple[Any, Any, Any]:
    """The kind, color and condition of a tile."""
    return tile & 15, tile >> 4 & 15, tile >> 8


def is_open_door(tile: Any) -> Any:
    """Whether a tile is an open door."""
    kind, _, condition = parts(tile)
    return (kind == DOOR) & (condition == OPEN)


def at(position: Iterable[Any], cells: Iterable[Any]) -> Any:
    """A mask of the cells that are at a position; both have coordinates x and y.

    A mask and not an index, because selection by a mask is faster on vector hardware than indexed reads and writes.
    """
    (x, y), (columns, rows) = position, cells
    return (columns == x) & (rows == y)


def heading(direction: Any) -> tuple[Any, Any]:
    """The unit vector of a direction; y points down.

    >>> [heading(direction) for direction in range(4)]
    [(1, 0), (0, 1), (-1, 0), (0, -1)]
    """
    across, down = ~direction & 1, direction & 1
    return (1 - direction) * across, (2 - direction) * down


def act(state: GridState, action: Int[Array, ""]) -> GridState:
    """Take one of MiniGrid's seven actions."""
    dx, dy = heading(state.direction)
    x, y = state.x + dx, state.y + dy
    ahead = at((x, y), np.indices(state.grid.shape, np.int32))
    tile_ahead = jnp.max(jnp.where(ahead, state.grid, UNSEEN))
    kind, _, _ = parts(tile_ahead)
    moves = (action == FORWARD) & ((tile_ahead == EMPTY) | is_open_door(tile_ahead))
    takes = (action == PICKUP) & ((kind == KEY) | (kind == BOX)) & (state.hand == EMPTY)
    swaps = takes | ((action == DROP) & (tile_ahead == EMPTY))
    changed = jnp.where(action == TOGGLE, _toggle(tile_ahead, state.hand), tile_ahead)
    return GridState(
        grid=jnp.where(ahead, jnp.where(swaps, state.hand, changed), state.grid),
        x=jnp.where(moves, x, state.x),
        y=jnp.where(moves, y, state.y),
        direction=(state.direction + (action == RIGHT) - (action == LEFT)) % 4,
        hand=jnp.where(swaps, tile_ahead, state.hand),
        mission=state.mission,
        steps=state.steps + 1,
    )


def _toggle(tile_ahead: Int[Array, ""], hand: Int[Array, ""]) -> Int[Array, ""]:
    """Toggle a tile: doors open or close, locked ones only with the key of their color; boxes turn into empty floor."""
    kind, color, condition = parts(tile_ahead)
    opens = jnp.where(condition == LOCKED, hand == tile(KEY, color), condition == CLOSED)
    turned = jnp.where(opens, OPEN, jnp.where(condition == OPEN, CLOSED, condition))
    return jnp.where(kind == DOOR, tile(DOOR, color, turned), jnp.where(kind == BOX, EMPTY, tile_ahead))


def view(state: GridState) -> Int[Array, "7 7 3"]:
    """The view of the agent: MiniGrid's `image`."""
    dx, dy = heading(state.direction)
    x = state.x + dx * _AHEAD - dy * _ASIDE
    y = state.y + dy * _AHEAD + dx * _ASIDE
    width, height = state.grid.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    # Cells outside the grid are walls, like the one at index 0.
    tiles = state.grid.ravel()[jnp.where(inside, x * height + y, 0)]
    kind, _, _ = parts(tiles)
    seen = visible((kind != WALL) & ((kind != DOOR) | is_open_door(tiles)))
    # At the position of the agent, the view shows the object that it carries.
    shown = jnp.where(_AGENT, state.hand, jnp.where(seen, tiles, UNSEEN))
    return shown[:, :, None] >> np.array([[[0, 4, 8]]], np.int32) & 15


def visible(transparent: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Which tiles of a view are visible to the agent.

    Light starts at the agent and spreads upward row by row. Every tile that it reaches is visible; from a transparent
    tile it spreads to both neighbors in the row and to the three tiles above. A row is an integer with one bit per
    column, so that light spreads by bit shifts.
    """
    rows = jnp.sum(transparent << _COLUMN, axis=0, dtype=jnp.int32)
    light = jnp.int32(1 << VIEW_SIZE // 2)
    # The view has more bits than one integer, so it takes two. Not an array of rows: XLA would recompute such an
    # array from the start for every element.
    upper, lower = jnp.int32(0), jnp.int32(0)
    for row in reversed(range(VIEW_SIZE)):
        for _ in range(VIEW_SIZE - 1):
            light = light | _spread(light & rows[row])
        in_view = light & (1 << VIEW_SIZE) - 1
        if row < 4:
            upper = upper | in_view << VIEW_SIZE * row
        else:
            lower = lower | in_view << VIEW_SIZE * (row - 4)
        light = _spread(light & rows[row])
    return (jnp.where(_ROW < 4, upper, lower) >> VIEW_SIZE * (_ROW % 4) + _COLUMN & 1) == 1


def _spread(bits: Int[Array, ""]) -> Int[Array, ""]:
    return bits << 1 | bits | bits >> 1
