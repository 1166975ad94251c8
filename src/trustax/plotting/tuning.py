"""Plots a study of hyperparameters: the objective of each trial, and the objective over each tuned setting."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from trustax.errors import TrustaxError
from trustax.plotting.curves import COLORS, FAINT_INK, STYLE, require_suffix, save

COLUMNS = 3
PANEL_SIZE = (3.4, 2.6)
CHARACTERS = 24
"""Characters that fit below a panel side by side."""


class Point(NamedTuple):
    """A trial with its objective."""

    number: int
    value: float
    complete: bool
    """False if the trial was pruned, so that its objective is that of fewer steps"""
    settings: Mapping[str, Any]


class Scale(NamedTuple):
    """The axis of a setting that has a range."""

    low: float | int
    high: float | int
    log: bool


Scales = Mapping[str, Scale | None]
"""Setting → its axis; None if it has choices."""


def plot_tuning(points: Sequence[Point], scales: Scales, path: Path, title: str = "") -> None:
    """Plot the trials, and save the figure as PNG, SVG or PDF."""
    require_suffix(path)
    if not points:
        raise TrustaxError(f"nothing to draw in {path}: no trial has an objective")
    with matplotlib.rc_context(STYLE | {"axes.titlepad": 8, "axes.titlesize": 11}):
        save(draw_tuning(points, scales, title), path)


def draw_tuning(points: Sequence[Point], scales: Scales, title: str) -> Figure:
    """Draw the figure without saving it; call this inside `rc_context(STYLE)`."""
    rows = 1 + ceil(len(scales) / COLUMNS)
    width, height = PANEL_SIZE
    figure = Figure(figsize=(width * COLUMNS, height * rows))
    grid = figure.add_gridspec(rows, COLUMNS)
    history = figure.add_subplot(grid[0, :])
    _draw_history(history, points)
    history.set_title(title)
    for index, (name, scale) in enumerate(scales.items()):
        axes = figure.add_subplot(grid[1 + index // COLUMNS, index % COLUMNS])
        if scale is None:
            choices = list(dict.fromkeys(point.settings[name] for point in points))
            _scatter(axes, [choices.index(point.settings[name]) for point in points], points)
            _name_choices(axes, [_short(choice) for choice in choices])
            axes.set_xlim(-0.5, len(choices) - 0.5)
        else:
            _scatter(axes, [point.settings[name] for point in points], points)
            _set_scale(axes, scale)
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
        numbers = [*(point.number for point in complete), ordered[-1].number]
        axes.step(numbers, [*best, best[-1]], where="post", color=COLORS[1], label="best so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    axes.set_ylabel("objective")
    axes.legend()


def _scatter(axes: Axes, positions: Sequence[float | int], points: Sequence[Point]) -> None:
    for complete, color, label in ((False, FAINT_INK, "pruned"), (True, COLORS[0], "complete")):
        chosen = [index for index, point in enumerate(points) if point.complete == complete]
        if chosen:
            xs, ys = [positions[index] for index in chosen], [points[index].value for index in chosen]
            axes.scatter(xs, ys, s=22, color=color, alpha=0.9 if complete else 0.5, label=label, zorder=3)


def _name_choices(axes: Axes, names: Sequence[str]) -> None:
    """Name the ticks of choices; names that do not fit side by side are slanted."""
    axes.set_xticks(range(len(names)), names)
    if max(map(len, names)) * len(names) > CHARACTERS:
        axes.tick_params(axis="x", labelrotation=30)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _set_scale(axes: Axes, scale: Scale) -> None:
    """Show the whole range, with a margin."""
    if scale.log:
        margin = (scale.high / scale.low) ** 0.03
        axes.set_xscale("log")
        axes.set_xlim(scale.low / margin, scale.high * margin)
        axes.xaxis.set_major_locator(LogLocator(10, (1.0,) if scale.high >= 100 * scale.low else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        margin = 0.03 * (scale.high - scale.low)
        axes.set_xlim(scale.low - margin, scale.high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=isinstance(scale.low, int)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
