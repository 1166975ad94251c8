"""Plots a study of hyperparameters: the objective of each trial, and the objective over each tuned setting."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.errors import TrustaxError
from trustax.plotting.curves import COLORS, FAINT_INK, STYLE, require_suffix, save

COLUMNS = 3
PANEL_SIZE = (3.4, 2.6)


class Point(NamedTuple):
    """A trial with its objective."""

    number: int
    value: float
    complete: bool
    """False if the trial was pruned, so that its objective is that of fewer steps"""
    settings: Mapping[str, Any]


def plot_tuning(points: Sequence[Point], log_scales: Mapping[str, bool], path: Path, title: str = "") -> None:
    """Plot the trials, and save the figure as PNG, SVG or PDF. `log_scales` says for each setting if it has one."""
    require_suffix(path)
    if not points:
        raise TrustaxError(f"nothing to draw in {path}: no trial has an objective")
    with matplotlib.rc_context(STYLE | {"axes.titlepad": 8, "axes.titlesize": 11}):
        save(draw_tuning(points, log_scales, title), path)


def draw_tuning(points: Sequence[Point], log_scales: Mapping[str, bool], title: str) -> Figure:
    """Draw the figure without saving it; call this inside `rc_context(STYLE)`."""
    rows = 1 + ceil(len(log_scales) / COLUMNS)
    width, height = PANEL_SIZE
    figure = Figure(figsize=(width * COLUMNS, height * rows))
    grid = figure.add_gridspec(rows, COLUMNS)
    history = figure.add_subplot(grid[0, :])
    _draw_history(history, points)
    history.set_title(title)
    for index, (name, has_log_scale) in enumerate(log_scales.items()):
        axes = figure.add_subplot(grid[1 + index // COLUMNS, index % COLUMNS])
        _scatter(axes, [_position(point.settings[name]) for point in points], points)
        if has_log_scale:
            axes.set_xscale("log")
        axes.set_xlabel(name)
        if index % COLUMNS == 0:
            axes.set_ylabel("objective")
    return figure


def _draw_history(axes: Axes, points: Sequence[Point]) -> None:
    ordered = sorted(points)
    _scatter(axes, [point.number for point in ordered], ordered)
    complete = [point for point in ordered if point.complete]
    if complete:
        best = np.maximum.accumulate([point.value for point in complete])
        numbers = [point.number for point in complete]
        axes.step(numbers, best, where="post", color=COLORS[1], label="best so far")
    axes.set_xlabel("trial")
    axes.set_ylabel("objective")
    axes.legend()


def _scatter(axes: Axes, positions: Sequence[Any], points: Sequence[Point]) -> None:
    if any(isinstance(one, str) for one in positions):
        positions = [str(one) for one in positions]
    for complete, color, label in ((False, FAINT_INK, "pruned"), (True, COLORS[0], "complete")):
        chosen = [index for index, point in enumerate(points) if point.complete == complete]
        if chosen:
            xs, ys = [positions[index] for index in chosen], [points[index].value for index in chosen]
            axes.scatter(xs, ys, s=22, color=color, alpha=0.9 if complete else 0.5, label=label, zorder=3)


def _position(value: Any) -> Any:
    """Numbers are placed by their value, other choices side by side."""
    return str(value) if isinstance(value, bool | str) or value is None else value
