"""Pictures of grid worlds: walls, doors, keys, boxes and the agent."""

from typing import Any

import numpy as np

from trustax.envs.jax.canvas import GRAY, INK, WHITE, Canvas, Color, Number, Point
from trustax.envs.jax.gridworld import BOX, DOOR, EMPTY, KEY, LOCKED, OPEN, WALL, GridState, heading, parts

TILE = 32
"""The side of a tile in pixels."""
GRID_LINE = (225, 225, 225)
COLORS: tuple[Color, ...] = (
    *((213, 60, 50), (40, 160, 80), (60, 100, 220)),
    *((130, 50, 170), (225, 190, 20), (120, 120, 120)),
)
"""red, green, blue, purple, yellow and gray, in MiniGrid's order"""


def grid_picture(state: GridState) -> np.ndarray:
    """The whole grid; the agent is a triangle that points ahead, with the object that it carries on it."""
    grid = np.asarray(state.grid)
    width, height = TILE * grid.shape[0], TILE * grid.shape[1]
    canvas = Canvas(width, height)
    for x in range(0, width, TILE):
        canvas.rectangle((x, 0), (1, height), GRID_LINE)
    for y in range(0, height, TILE):
        canvas.rectangle((0, y), (width, 1), GRID_LINE)
    for (column, row), tile in np.ndenumerate(grid):
        if tile != EMPTY:
            _draw_tile(canvas, (TILE * column, TILE * row), TILE, int(tile))
    _draw_agent(canvas, state)
    return canvas.picture()


def _draw_tile(canvas: Canvas, corner: Point, size: Number, tile: int) -> None:
    kind, color_number, condition = parts(tile)
    (x, y), color = corner, COLORS[color_number % len(COLORS)]

    def inset(share: Number, fill: Color) -> None:
        canvas.rectangle((x + share * size, y + share * size), (size * (1 - 2 * share),) * 2, fill)

    if kind == WALL:
        inset(0, GRAY)
    elif kind == DOOR and condition == OPEN:
        canvas.rectangle((x, y), (size * 0.15, size), color)
    elif kind == DOOR:
        inset(0, color)
        inset(0.1, color if condition == LOCKED else WHITE)
        canvas.disk((x + 0.75 * size, y + 0.5 * size), 0.1 * size, INK if condition == LOCKED else color)
    elif kind == KEY:
        canvas.disk((x + 0.5 * size, y + 0.3 * size), 0.18 * size, color)
        canvas.disk((x + 0.5 * size, y + 0.3 * size), 0.07 * size, WHITE)
        canvas.line((x + 0.5 * size, y + 0.48 * size), (x + 0.5 * size, y + 0.85 * size), 0.1 * size, color)
        canvas.line((x + 0.5 * size, y + 0.8 * size), (x + 0.66 * size, y + 0.8 * size), 0.1 * size, color)
    elif kind == BOX:
        inset(0.15, color)
        inset(0.26, WHITE)
        canvas.line((x + 0.2 * size, y + 0.5 * size), (x + 0.8 * size, y + 0.5 * size), 0.1 * size, color)


def _draw_agent(canvas: Canvas, state: GridState) -> None:
    x, y = (TILE * (int(position) + 0.5) for position in (state.x, state.y))
    dx, dy = (int(step) for step in heading(int(state.direction)))

    def corner(ahead: Number, aside: Number) -> tuple[Any, Any]:
        return x + TILE * (ahead * dx - aside * dy), y + TILE * (ahead * dy + aside * dx)

    canvas.polygon([corner(0.4, 0), corner(-0.35, 0.35), corner(-0.35, -0.35)], INK)
    if (hand := int(state.hand)) != EMPTY:
        _draw_tile(canvas, (x - TILE / 4, y - TILE / 4), TILE / 2, hand)
