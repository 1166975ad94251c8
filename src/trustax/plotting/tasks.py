"""Plots learning curves on several tasks as small multiples: one axis per task, one color per label."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN
from trustax.plotting.curves import (
    AXIS_LABELS,
    FAINT_INK,
    STYLE,
    Curve,
    curves_of,
    draw_run,
    explanation_of,
    label_axes,
    plot_curves,
    reason_for_nothing,
    require_suffix,
    save,
    style_of,
)
from trustax.plotting.legend import LEGEND_WIDTH, add_legend

MAX_COLUMNS = 3
PANEL_SIZE = (3.6, 2.9)
TITLE_WIDTH = 28
"""Characters in a line of a panel's title."""

Records = Sequence[Mapping[str, Any]]


def plot_tasks(tasks: Mapping[str, Mapping[str, Records]], path: Path | str, metric: str = RETURN) -> None:
    """Plot `metric` of the runs on each task over environment steps, and save the figure as PNG, SVG or PDF."""
    if len(tasks) == 1:
        ((task, runs),) = tasks.items()
        plot_curves(runs, path, task, metric)
        return
    path = Path(path)
    require_suffix(path)
    curves = {task: found for task, runs in tasks.items() if (found := curves_of(runs, metric))}
    if not curves:
        everything = {f"{task} {label}": records for task, runs in tasks.items() for label, records in runs.items()}
        raise TrustaxError(f"nothing to draw in {path}: {reason_for_nothing(everything, metric)}")
    with matplotlib.rc_context(STYLE | {"axes.titlepad": 8, "axes.titlesize": 11}):
        save(draw_tasks(curves, AXIS_LABELS.get(metric, metric)), path)


def draw_tasks(tasks: Mapping[str, Mapping[str, Curve]], label: str) -> Figure:
    """Draw the figure without saving it; call this inside `rc_context(STYLE)`."""
    labels = list(dict.fromkeys(name for runs in tasks.values() for name in runs))
    num_columns = min(MAX_COLUMNS, len(tasks))
    num_rows = ceil(len(tasks) / num_columns)
    width, height = PANEL_SIZE
    figure = Figure(figsize=(width * num_columns + LEGEND_WIDTH, height * num_rows + 0.4))
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    lines = {}
    for index, (axes, (task, runs)) in enumerate(zip(panels, tasks.items(), strict=False)):
        for name, curve in runs.items():
            lines[name] = draw_run(axes, curve, *style_of(labels.index(name)))
        label_axes(axes, label, max(int(curve.steps[-1]) for curve in runs.values()))
        axes.set_title(fill(task, TITLE_WIDTH))
        if index % num_columns:
            axes.set_ylabel("")
        if index + num_columns < len(tasks):
            axes.set_xlabel("")
    for unused in panels[len(tasks) :]:
        unused.remove()
    everything = [curve for runs in tasks.values() for curve in runs.values()]
    figure.supxlabel(explanation_of(everything), color=FAINT_INK, fontsize=9)
    add_legend(figure, [lines[name] for name in labels], labels)
    return figure
