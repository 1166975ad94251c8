"""Learning curves of many methods: one panel per family of methods, with the best setting highlighted.

For comparison, every panel also shows the best settings of the other families in gray.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea
from matplotlib.ticker import MaxNLocator

from trustax.cli.formatting import short_count
from trustax.paper.figures.panels import BAND, draw_seeds, make_figure, set_panel_title
from trustax.paper.tables.targets import Target
from trustax.plotting.curves import COLORS, LINE_STYLES, Curve, label_axes

GRAY = "#c8c8c8"
COLUMNS = 4
PANEL = (2.25, 2.3)
"""Width and height of a panel in inches."""
MARGIN = 0.1
"""Space for the paper's marks to the right of the curves, as a fraction of their length."""


class Line(NamedTuple):
    """One method in a panel."""

    label: str
    curve: Curve
    target: Target | None = None
    """the final value in the paper"""

    @property
    def final(self) -> float:
        return float(np.nanmean(self.curve.values[-1]))


def family_and_setting(method: str) -> tuple[str, str]:
    """Split the name of a method into its family and its main hyperparameter.

    >>> family_and_setting("KL Fixed β=0.1"), family_and_setting("MCPO N=5 literal"), family_and_setting("TRGPPO")
    (('KL Fixed', 'β=0.1'), ('MCPO literal', 'N=5'), ('TRGPPO', ''))
    """
    words = method.split(" ")
    setting = next((word for word in words if "=" in word), "")
    return " ".join(word for word in words if word != setting), setting


def families_caption(groups: Mapping[str, Sequence[Line]], steps: int) -> str:
    """Explain lines and marks; `steps` is the paper's training length."""
    lines = [line for group in groups.values() for line in group]
    parts = []
    if len(lines) > len(groups):
        parts.append(f"Bold: the best setting of each family, with its {BAND}.")
    elif any(line.curve.num_seeds > 1 for line in lines):
        parts.append(f"{BAND.capitalize()}.")
    if len(groups) > 1:
        parts.append("Gray: the best of the other families.")
    if any(line.target for line in lines):
        parts.append(f"◆: final value in the paper, after {short_count(steps)} steps.")
    return " ".join(parts)


def draw_families(title: str, caption: str, groups: Mapping[str, Sequence[Line]]) -> Figure:
    """Draw one panel per group. Every group needs at least one line."""
    columns = min(COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    size = (max(6.5, columns * PANEL[0]), rows * PANEL[1] + 1.0)
    figure, panels = make_figure(title, caption, size, (rows, columns), sharex=True, sharey=True)
    last = max(int(line.curve.steps[-1]) for lines in groups.values() for line in lines)
    best = {name: best_of(lines) for name, lines in groups.items()}
    for index, (axes, name) in enumerate(zip(panels.flat, groups, strict=False)):
        for other in best.values():
            axes.plot(other.curve.steps, np.nanmean(other.curve.values, axis=1), color=GRAY, linewidth=0.9, zorder=1)
        _draw_group(axes, groups[name], best[name], last)
        set_panel_title(axes, name, pad=18.0)
        _set_axes(axes, last, is_lowest=index + columns >= len(groups))
    for axes in panels.flat[len(groups) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("episode return")
    return figure


def best_of(lines: Sequence[Line]) -> Line:
    """The line with the highest final value among those trained longest."""
    longest = max(line.curve.steps[-1] for line in lines)
    return max((line for line in lines if line.curve.steps[-1] == longest), key=lambda line: line.final)


def _draw_group(axes: Axes, lines: Sequence[Line], best: Line, last: int) -> None:
    texts: list[Artist] = []
    for index, line in enumerate(lines):
        color, style = COLORS[index % len(COLORS)], LINE_STYLES[index % len(LINE_STYLES)]
        if line is best:
            draw_seeds(axes, line.curve, color, linestyle=style, zorder=4)
        else:
            axes.plot(
                line.curve.steps,
                np.nanmean(line.curve.values, axis=1),
                color=color,
                linestyle=style,
                linewidth=1.1,
                zorder=3,
            )
        if line.target is not None:
            _draw_target(axes, line.target, last * (1 + MARGIN * (index + 1) / (len(lines) + 1)), color)
        weight = "bold" if line is best else "normal"
        texts.append(TextArea(line.label, textprops={"color": color, "fontsize": 7.5, "fontweight": weight}))
    # Place the legend above the panel, where it covers no curve.
    names = HPacker(children=texts, pad=0, sep=5)
    above: dict[str, Any] = {"bbox_to_anchor": (0, 1), "bbox_transform": axes.transAxes}
    legend = AnchoredOffsetbox("lower left", child=names, frameon=False, pad=0, borderpad=0.3, **above)
    legend.set_in_layout(False)  # a long legend must not widen its column
    axes.add_artist(legend)


def _draw_target(axes: Axes, target: Target, x: float, color: str) -> None:
    axes.errorbar(
        x, target.mean, yerr=target.std, fmt="D", color=color, markersize=4, elinewidth=1, alpha=0.8, zorder=5
    )


def _set_axes(axes: Axes, last: int, is_lowest: bool) -> None:
    label_axes(axes, "", last)
    axes.set_xlabel("steps per seed" if is_lowest else "", fontsize=9)
    axes.set_xlim(0, last * (1 + MARGIN))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(labelsize=8.5, labelbottom=is_lowest)
