"""MiniGrid's mechanics and its view in JAX: an agent with one hand, on a grid of tiles.

A tile is one integer: what it is, its colour, and for a door its condition, in four bits each and with MiniGrid's
numbers. Empty floor is a tile as any other, and so is an empty hand; picking up and dropping are then one thing:
the hand and the cell ahead swap what they hold.

Tasks bring layouts and goals (`trustax.envs.jax.unlock`). Of MiniGrid's objects there are those which ours need.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from trustax.envs.minigrid import VIEW_SIZE

UNSEEN, EMPTY, WALL, DOOR, KEY, BOX = 0, 1, 2, 4, 5, 7
OPEN, CLOSED, LOCKED = 0, 1, 2
GREY = 5
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

# The view is addressed as MiniGrid does it: [column, row], where the agent stands below in the middle, looking up.
_COLUMN, _ROW = np.indices((VIEW_SIZE, VIEW_SIZE), np.int32)
_AHEAD = VIEW_SIZE - 1 - _ROW
_ASIDE = _COLUMN - VIEW_SIZE // 2
_AGENT = (_AHEAD == 0) & (_ASIDE == 0)


class GridState(NamedTuple):
    """Where everything is. The corners and the edge of the grid are walls."""

    grid: Int[Array, "width height"]
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]
    """0 to 3: right, down, left, up"""
    hand: Int[Array, ""]
    mission: Int[Array, ""]
    """the colour that the mission names, where it names one"""
    steps: Int[Array, ""]


def tile(kind: Any, color: Any = 0, condition: Any = 0) -> Any:
    """A tile of its parts; empty floor is `EMPTY` itself.

    >>> parts(tile(DOOR, GREY, LOCKED))
    (4, 5, 2)
    """
    return kind | color << 4 | condition << 8


def parts(tile: Any) -> tuple[Any, Any, Any]:
    """The kind, the colour and the condition of a tile."""
    return tile & 15, tile >> 4 & 15, tile >> 8


def is_open_door(tile: Any) -> Any:
    """Whether a tile is an open door."""
    kind, _, condition = parts(tile)
    return (kind == DOOR) & (condition == OPEN)


def at(place: Iterable[Any], cells: Iterable[Any]) -> Any:
    """Which of these cells is the place, both as x and y.

    A mask and not an index, since a selection by a mask is cheaper on vector hardware than a read or write.
    """
    (x, y), (columns, rows) = place, cells
    return (columns == x) & (rows == y)


def heading(direction: Any) -> tuple[Any, Any]:
    """The unit vector of a direction; y points down.

    >>> [heading(direction) for direction in range(4)]
    [(1, 0), (0, 1), (-1, 0), (0, -1)]
    """
    across, down = ~direction & 1, direction & 1
    return (1 - direction) * across, (2 - direction) * down


def act(state: GridState, action: Int[Array, ""]) -> GridState:
    """One of MiniGrid's seven actions."""
    dx, dy = heading(state.direction)
    x, y = state.x + dx, state.y + dy
    ahead = at((x, y), np.indices(state.grid.shape, np.int32))
    faced = jnp.max(jnp.where(ahead, state.grid, UNSEEN))
    kind, _, _ = parts(faced)
    moves = (action == FORWARD) & ((faced == EMPTY) | is_open_door(faced))
    takes = (action == PICKUP) & ((kind == KEY) | (kind == BOX)) & (state.hand == EMPTY)
    swaps = takes | ((action == DROP) & (faced == EMPTY))
    changed = jnp.where(action == TOGGLE, _toggled(faced, state.hand), faced)
    return GridState(
        grid=jnp.where(ahead, jnp.where(swaps, state.hand, changed), state.grid),
        x=jnp.where(moves, x, state.x),
        y=jnp.where(moves, y, state.y),
        direction=(state.direction + (action == RIGHT) - (action == LEFT)) % 4,
        hand=jnp.where(swaps, faced, state.hand),
        mission=state.mission,
        steps=state.steps + 1,
    )


def _toggled(faced: Int[Array, ""], hand: Int[Array, ""]) -> Int[Array, ""]:
    """A door opens or closes, if it is locked then only by the key of its colour; a box opens, and nothing is in it."""
    kind, color, condition = parts(faced)
    opens = jnp.where(condition == LOCKED, hand == tile(KEY, color), condition == CLOSED)
    turned = jnp.where(opens, OPEN, jnp.where(condition == OPEN, CLOSED, condition))
    return jnp.where(kind == DOOR, tile(DOOR, color, turned), jnp.where(kind == BOX, EMPTY, faced))


def view(state: GridState) -> Int[Array, "7 7 3"]:
    """What the agent sees: MiniGrid's `image`."""
    dx, dy = heading(state.direction)
    x = state.x + dx * _AHEAD - dy * _ASIDE
    y = state.y + dy * _AHEAD + dx * _ASIDE
    width, height = state.grid.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    # Beyond the edge there are walls, such as the one at index 0.
    tiles = state.grid.ravel()[jnp.where(inside, x * height + y, 0)]
    kind, _, _ = parts(tiles)
    seen = visible((kind != WALL) & ((kind != DOOR) | is_open_door(tiles)))
    # The agent sees at its own place what it carries.
    shown = jnp.where(_AGENT, state.hand, jnp.where(seen, tiles, UNSEEN))
    return shown[:, :, None] >> np.array([[[0, 4, 8]]], np.int32) & 15


def visible(transparent: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Which tiles of a view the agent sees.

    Light starts at the agent and goes up row by row. Each tile that it reaches is seen; from a transparent one it
    goes on to both neighbours in the row and to the three tiles above. A row is an integer, a bit for each column,
    so that light spreads by shifting.
    """
    rows = jnp.sum(transparent << _COLUMN, axis=0, dtype=jnp.int32)
    light = jnp.int32(1 << VIEW_SIZE // 2)
    # The view has more bits than an integer. Two of them, and not an array of rows: XLA would work out that array
    # from the start for every element of it.
    upper, lower = jnp.int32(0), jnp.int32(0)
    for row in reversed(range(VIEW_SIZE)):
        for _ in range(VIEW_SIZE - 1):
            light = light | _spread(light & rows[row])
        within = light & (1 << VIEW_SIZE) - 1
        if row < 4:
            upper = upper | within << VIEW_SIZE * row
        else:
            lower = lower | within << VIEW_SIZE * (row - 4)
        light = _spread(light & rows[row])
    return (jnp.where(_ROW < 4, upper, lower) >> VIEW_SIZE * (_ROW % 4) + _COLUMN & 1) == 1


def _spread(bits: Int[Array, ""]) -> Int[Array, ""]:
    return bits << 1 | bits | bits >> 1
