"""Figure 1a: the policies that MCPO stores and attends to, over the updates of a run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trustax.paper.figures.panels import SMALL, make_figure, set_panel_title
from trustax.paper.results import to_slug
from trustax.paper.trace.trace import WINDOW, Segment, Trace
from trustax.plotting.curves import COLORS, FAINT_INK, GRID

BLUE, RED, GREEN, _, YELLOW, CYAN, _ = COLORS
ROWS = {"stored": RED, "old policy θ_old": GREEN, "most attended": YELLOW, "query": CYAN}
"""The rows from the top, with the colors of the paper's figure."""
QUERY_UPDATE = 10
"""The update after an old policy that is shown as a query."""
NUM_QUERIES = 3
ZOOM = (-12, 48)
"""The range of updates around an old policy in the enlarged panels."""
HALF_LENGTH = 0.36  # of a mark; rows are one apart


class Query(NamedTuple):
    """An update and the policy with its highest attention."""

    old: int
    update: int
    attended: int


class Marks(NamedTuple):
    """The policies to draw in each row, by number."""

    written: Int[np.ndarray, " write"]
    old: Int[np.ndarray, " iteration"]
    attended: Int[np.ndarray, " policy"]
    """by any update"""
    queries: list[Query]


def draw_timelines(traces: Sequence[Trace]) -> dict[str, Figure]:
    """Draw one figure per trace."""
    return {f"{trace.task}-{to_slug(trace.method)}": draw_timeline(trace) for trace in traces}


def draw_timeline(trace: Trace) -> Figure:
    """Draw the window of the paper's figure and, enlarged below it, the starts of its iterations."""
    first, last = window(trace)
    marks = marks_of([segment for segment in trace.segments if first <= segment.updates[-1] and segment.old <= last])
    queries = [query for query in marks.queries if first <= query.update <= last][-NUM_QUERIES:]
    caption = (
        "Policies are numbered by the update that created them. Arrows point from a query, update "
        f"{QUERY_UPDATE} after an old policy, to the policy with its highest attention; pale marks: the policies with "
        f"the highest attention of the other updates. Bottom: enlarged. One seed, protocol {trace.protocol}."
    )
    title = f"Stored and attended policies: {trace.method} on {trace.task}"
    figure, panels = make_figure(title, caption, (9.0, 5.4), (2, len(queries)), height_ratios=(1, 1.1), sharey=True)
    for panel in panels[0]:
        panel.remove()
    whole = figure.add_subplot(panels[0, 0].get_gridspec()[0, :])
    _draw_rows(whole, marks._replace(queries=queries), first, last, ticks=8)
    whole.set_xlabel("update")
    for panel, query in zip(panels[1], queries, strict=True):
        left, right = (query.old + distance for distance in ZOOM)
        _draw_rows(panel, marks._replace(queries=[query]), min(left, query.attended - 4), right, ticks=3)
        set_panel_title(panel, f"θ_old = {query.old}")
        panel.set_xlabel("update")
        if panel is not panels[1, 0]:
            panel.tick_params(labelleft=False)
    return figure


def window(trace: Trace) -> tuple[int, int]:
    """The range of updates to show: the paper's, or the last recorded iterations of a shorter run."""
    updates = np.concatenate([segment.updates for segment in trace.segments])
    if set(range(WINDOW[0], WINDOW[1] + 1)) <= set(updates.tolist()):
        return WINDOW
    return int(trace.segments[max(0, len(trace.segments) - NUM_QUERIES - 1)].old), int(updates[-1])


def marks_of(segments: list[Segment]) -> Marks:
    return Marks(
        written=np.concatenate([segment.written for segment in segments]),
        old=np.array([segment.old for segment in segments]),
        attended=np.unique(np.concatenate([segment.attended for segment in segments])),
        queries=[
            Query(segment.old, segment.old + QUERY_UPDATE, int(segment.attended[QUERY_UPDATE - 1]))
            for segment in segments
            if len(segment.attended) >= QUERY_UPDATE
        ],
    )


def _draw_rows(axes: Axes, marks: Marks, first: int, last: int, ticks: int) -> None:
    heights = dict(zip(ROWS, range(len(ROWS) - 1, -1, -1), strict=True))
    numbers = {
        "stored": marks.written,
        "old policy θ_old": marks.old,
        "most attended": np.array([query.attended for query in marks.queries]),
        "query": np.array([query.update for query in marks.queries]),
    }
    _draw_marks(axes, marks.attended, heights["most attended"], YELLOW, alpha=0.35, linewidth=1.0)
    for row, height in heights.items():
        axes.axhline(height, color=GRID, linewidth=0.8, zorder=0)
        _draw_marks(axes, numbers[row], height, ROWS[row], linewidth=1.6)
    for query in marks.queries:
        axes.annotate(
            "",
            xy=(query.attended, heights["most attended"] - HALF_LENGTH),
            xytext=(query.update, heights["query"] + HALF_LENGTH),
            arrowprops={"arrowstyle": "->", "color": BLUE, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0},
        )
    axes.set_xlim(first, last)
    axes.set_ylim(-0.6, len(ROWS) - 0.4)
    axes.set_yticks(list(heights.values()), list(heights), fontsize=SMALL)
    axes.tick_params(axis="y", labelcolor=FAINT_INK)
    axes.grid(False)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True, steps=[1, 2, 2.5, 5, 10]))


def _draw_marks(axes: Axes, at: Int[np.ndarray, " mark"], height: int, color: str, **style: Any) -> None:
    axes.vlines(at, height - HALF_LENGTH, height + HALF_LENGTH, color=color, **style)
