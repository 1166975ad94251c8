"""Figures with several panels: a title above, a caption below, and lines with error bands."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from trustax.paper.trace.trace import Trace
from trustax.plotting.curves import COLORS, FAINT_INK, LINE_STYLES, Curve

SMALL = 9
BAND = "band: ± one standard deviation over seeds"
MARGIN = 0.012
"""Space left and right of title and caption, as a fraction of the width."""


def make_figure(
    title: str, caption: str, size: tuple[float, float], shape: tuple[int, int] = (1, 1), **settings: Any
) -> tuple[Figure, np.ndarray]:
    """Make a figure and its panels, `row column`; call this inside `rc_context(STYLE)`."""
    figure = Figure(figsize=size)
    panels = figure.subplots(*shape, squeeze=False, **settings)
    width = size[0] * (0.95 - 2 * MARGIN)  # rendered letters are wider than their outlines
    bold, small = FontProperties(size=12.5, weight="bold"), FontProperties(size=SMALL)
    figure.suptitle(wrapped(title, width, bold), x=MARGIN, ha="left", fontproperties=bold)
    figure.supxlabel(wrapped(caption, width, small), x=MARGIN, ha="left", color=FAINT_INK, fontproperties=small)
    return figure, panels


def make_paired_figure(
    title: str, caption: str, num_columns: int, height: float, height_ratios: tuple[int, int]
) -> tuple[Figure, np.ndarray]:
    """Make a figure with one column of two panels per method."""
    size, shape = (max(6.5, 4.5 * num_columns), height), (2, num_columns)
    return make_figure(title, caption, size, shape, height_ratios=height_ratios, sharey="row", sharex=True)


def wrapped(text: str, inches: float, font: FontProperties) -> str:
    """Wrap text to a width in inches. No-break spaces do not break."""
    lines = [""]
    for word in filter(None, text.split(" ")):
        longer = f"{lines[-1]} {word}".lstrip()
        width, _, _ = TextToPath().get_text_width_height_descent(longer, font, ismath=False)
        if width <= inches * 72:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(filter(None, lines))


def set_panel_title(axes: Axes, name: str, pad: float = 6.0) -> None:
    axes.set_title(name, fontsize=10.5, pad=pad)


def draw_band(
    axes: Axes,
    steps: Int[np.ndarray, " point"],
    mean: Float[np.ndarray, " point"],
    spread: Float[np.ndarray, " point"],
    color: str,
    **style: Any,
) -> None:
    """Draw a line with a band of `spread` above and below."""
    axes.fill_between(steps, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    marker = "o" if len(steps) == 1 else None  # a single point is invisible without a marker
    axes.plot(steps, mean, color=color, marker=marker, **style)


def draw_seeds(axes: Axes, curve: Curve, color: str, **style: Any) -> None:
    """Draw the mean over seeds with a band of one standard deviation."""
    mean, spread = np.nanmean(curve.values, axis=1), np.nanstd(curve.values, axis=1)
    draw_band(axes, curve.steps, mean, spread, color, **style)


def line_style_of(rows: Sequence[str], method: str) -> tuple[str, str]:
    """Color and line style of a method. MCPO always has the same colors, and the only solid lines."""
    index = sorted(rows, key=lambda name: "MCPO" not in name).index(method)
    style = "-" if "MCPO" in method else LINE_STYLES[1 + index % (len(LINE_STYLES) - 1)]
    return COLORS[index % len(COLORS)], style


def add_legend(figure: Figure, rows: Sequence[str], panels: np.ndarray, **settings: Any) -> None:
    """Add a legend with the lines of all panels, each once, in the order of the rows."""
    known = {label: line for axes in panels.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    lines = {row: known[row] for row in rows if row in known}
    figure.legend(list(lines.values()), list(lines), fontsize=SMALL, **settings)


def by_task(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """Group traces by task, sorted by method."""
    tasks: dict[str, list[Trace]] = {}
    for trace in sorted(traces, key=lambda trace: trace.method):
        tasks.setdefault(trace.task, []).append(trace)
    return tasks
