"""Draw simple pictures of environments in NumPy, with smooth edges."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

Color = tuple[int, int, int]
Number = float | int
Point = tuple[Number, Number]
"""x to the right and y down, in pixels"""

WHITE, INK, GRAY = (255, 255, 255), (34, 34, 34), (154, 154, 154)


class Canvas:
    """A picture that shapes are painted on, one over another.

    A shape is the signed distance of a pixel to its edge, negative inside; a pixel on the edge is half covered.

    >>> canvas = Canvas(width=8, height=6)
    >>> canvas.disk((4, 3), 2, INK)
    >>> canvas.picture().shape, canvas.picture()[3, 4].tolist(), canvas.picture()[0, 0].tolist()
    ((6, 8, 3), [34, 34, 34], [255, 255, 255])
    """

    def __init__(self, width: int, height: int, background: Color = WHITE) -> None:
        self._pixels: Any = np.full((height, width, 3), background, np.float32)

    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        return self._pixels.round().astype(np.uint8)

    def disk(self, center: Point, radius: Number, color: Color) -> None:
        def distance(x: Any, y: Any) -> Any:
            return np.hypot(x - center[0], y - center[1]) - radius

        self._paint(distance, [center], radius, color)

    def line(self, start: Point, end: Point, width: Number, color: Color) -> None:
        """A line with round ends."""
        dx, dy = end[0] - start[0], end[1] - start[1]

        def distance(x: Any, y: Any) -> Any:
            along = ((x - start[0]) * dx + (y - start[1]) * dy) / max(dx * dx + dy * dy, 1e-9)
            along = np.clip(along, 0, 1)
            return np.hypot(x - start[0] - along * dx, y - start[1] - along * dy) - width / 2

        self._paint(distance, [start, end], width / 2, color)

    def rectangle(self, corner: Point, size: tuple[Number, Number], color: Color) -> None:
        (x, y), (width, height) = corner, size
        self.polygon([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], color)

    def polygon(self, corners: Sequence[Point], color: Color) -> None:
        """A convex polygon with corners in clockwise order."""
        edges = list(zip(corners, [*corners[1:], corners[0]], strict=True))

        def distance(x: Any, y: Any) -> Any:
            return np.max([_beyond(x, y, *edge) for edge in edges], axis=0)

        self._paint(distance, corners, 0, color)

    def _paint(
        self, distance: Callable[[Any, Any], Any], points: Sequence[Point], margin: Number, color: Color
    ) -> None:
        """Paint a shape that lies within `margin` of the rectangle around some points."""
        height, width, _ = self._pixels.shape
        (left, right), (top, bottom) = (
            (max(int(min(ends) - margin) - 1, 0), min(int(max(ends) + margin) + 2, side))
            for ends, side in zip(zip(*points, strict=True), (width, height), strict=True)
        )
        rows, columns = np.mgrid[top:bottom, left:right]
        cover = np.clip(0.5 - distance(columns + 0.5, rows + 0.5), 0, 1)[:, :, None]
        window = self._pixels[top:bottom, left:right]
        window += cover * (np.array(color, np.float32)[None, None] - window)


def _beyond(x: Any, y: Any, start: Point, end: Point) -> Any:
    """How far points are to the left of an edge, which is outside."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    return ((x - start[0]) * dy - (y - start[1]) * dx) / np.hypot(dx, dy)
