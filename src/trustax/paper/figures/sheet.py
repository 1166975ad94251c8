"""A picture of several panels in the house's style: a title above, what the eye sees below, lines with their spread."""

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
"""Left and right of title and caption, as a share of the width."""


def sheet(
    title: str, caption: str, size: tuple[float, float], shape: tuple[int, int] = (1, 1), **settings: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its panels, `row column`; make it within the style's `rc_context`."""
    figure = Figure(figsize=size)
    panels = figure.subplots(*shape, squeeze=False, **settings)
    room = size[0] * (0.95 - 2 * MARGIN)  # letters on pixels are wider than their outlines
    bold, small = FontProperties(size=12.5, weight="bold"), FontProperties(size=SMALL)
    figure.suptitle(wrapped(title, room, bold), x=MARGIN, ha="left", fontproperties=bold)
    figure.supxlabel(wrapped(caption, room, small), x=MARGIN, ha="left", color=FAINT_INK, fontproperties=small)
    return figure, panels


def paired_sheet(
    title: str, caption: str, num_columns: int, height: float, height_ratios: tuple[int, int]
) -> tuple[Figure, np.ndarray]:
    """A column of two panels for each method, one above the other."""
    size, shape = (max(6.5, 4.5 * num_columns), height), (2, num_columns)
    return sheet(title, caption, size, shape, height_ratios=height_ratios, sharey="row", sharex=True)


def wrapped(text: str, inches: float, font: FontProperties) -> str:
    """The text in lines of at most that width; it is not broken at a no-break space."""
    lines = [""]
    for word in filter(None, text.split(" ")):
        longer = f"{lines[-1]} {word}".lstrip()
        width, _, _ = TextToPath().get_text_width_height_descent(longer, font, ismath=False)
        if width <= inches * 72:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(filter(None, lines))


def name_panel(axes: Axes, name: str, pad: float = 6.0) -> None:
    axes.set_title(name, fontsize=10.5, pad=pad)


def draw_band(
    axes: Axes,
    steps: Int[np.ndarray, " point"],
    mean: Float[np.ndarray, " point"],
    spread: Float[np.ndarray, " point"],
    color: str,
    **look: Any,
) -> None:
    """A line with what lies within its spread."""
    axes.fill_between(steps, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    marker = "o" if len(steps) == 1 else None  # a single point has no extent
    axes.plot(steps, mean, color=color, marker=marker, **look)


def draw_seeds(axes: Axes, curve: Curve, color: str, **look: Any) -> None:
    """The mean over seeds, with their standard deviation as its spread."""
    mean, spread = np.nanmean(curve.values, axis=1), np.nanstd(curve.values, axis=1)
    draw_band(axes, curve.steps, mean, spread, color, **look)


def look_of(rows: Sequence[str], method: str) -> tuple[str, str]:
    """Color and style of a method's line; MCPO's are the same whatever it is compared with, and the only full ones."""
    index = sorted(rows, key=lambda name: "MCPO" not in name).index(method)
    style = "-" if "MCPO" in method else LINE_STYLES[1 + index % (len(LINE_STYLES) - 1)]
    return COLORS[index % len(COLORS)], style


def add_legend(figure: Figure, rows: Sequence[str], panels: np.ndarray, **settings: Any) -> None:
    """Each line of any panel once, in the order of the rows."""
    known = {label: line for axes in panels.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    lines = {row: known[row] for row in rows if row in known}
    figure.legend(list(lines.values()), list(lines), fontsize=SMALL, **settings)


def by_task(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """Traces that can be compared, in the order of the methods' names."""
    tasks: dict[str, list[Trace]] = {}
    for trace in sorted(traces, key=lambda trace: trace.method):
        tasks.setdefault(trace.task, []).append(trace)
    return tasks
