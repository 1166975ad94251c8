"""Figure 1a: which policies MCPO remembers and which of them it attends to, along the updates of a run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trustax.paper.figures.sheet import SMALL, name_panel, sheet
from trustax.paper.results import plain_name
from trustax.paper.trace.trace import WINDOW, Segment, Trace
from trustax.plotting.curves import COLORS, FAINT_INK, GRID

BLUE, RED, GREEN, _, YELLOW, CYAN, _ = COLORS
ROWS = {"remembered": RED, "old policy θ_old": GREEN, "most attended": YELLOW, "query": CYAN}
"""From the top, with the colors of the paper's figure."""
QUERY = 10
"""Which update after an old policy asks what was attended to."""
QUERIES = 3
AROUND = (-12, 48)
"""The updates about an old policy that are shown enlarged."""
HALF_LENGTH = 0.36  # of a mark; rows are one apart


class Query(NamedTuple):
    """An update, and the policy that it attended to most."""

    old: int
    update: int
    attended: int


class Marks(NamedTuple):
    """All that is drawn: numbers of policies, by row."""

    written: Int[np.ndarray, " write"]
    old: Int[np.ndarray, " iteration"]
    attended: Int[np.ndarray, " policy"]
    """by any update"""
    queries: list[Query]


def draw_timelines(traces: Sequence[Trace]) -> dict[str, Figure]:
    """A figure for each trace."""
    return {f"{trace.task}-{plain_name(trace.method)}": draw_timeline(trace) for trace in traces}


def draw_timeline(trace: Trace) -> Figure:
    """The window of the paper's figure, and below it the beginnings of its iterations, enlarged."""
    first, last = window(trace)
    marks = marks_of([segment for segment in trace.segments if first <= segment.updates[-1] and segment.old <= last])
    queries = [query for query in marks.queries if first <= query.update <= last][-QUERIES:]
    caption = (
        "A policy goes by the update that made it. Arrows lead from a query, update "
        f"{QUERY} after an old policy, to the policy that it attends to most; pale marks are those that any other "
        f"update attends to most. Below, the same enlarged. One seed, protocol {trace.protocol}."
    )
    title = f"Policies remembered and attended to: {trace.method} on {trace.task}"
    figure, panels = sheet(title, caption, (9.0, 5.4), (2, len(queries)), height_ratios=(1, 1.1), sharey=True)
    for panel in panels[0]:
        panel.remove()
    whole = figure.add_subplot(panels[0, 0].get_gridspec()[0, :])
    _draw_rows(whole, marks._replace(queries=queries), first, last, ticks=8)
    whole.set_xlabel("update")
    for panel, query in zip(panels[1], queries, strict=True):
        left, right = (query.old + distance for distance in AROUND)
        _draw_rows(panel, marks._replace(queries=[query]), min(left, query.attended - 4), right, ticks=3)
        name_panel(panel, f"θ_old = {query.old}")
        panel.set_xlabel("update")
        if panel is not panels[1, 0]:
            panel.tick_params(labelleft=False)
    return figure


def window(trace: Trace) -> tuple[int, int]:
    """The updates to show: the paper's, or all of the last iterations that were kept."""
    updates = np.concatenate([segment.updates for segment in trace.segments])
    if set(range(WINDOW[0], WINDOW[1] + 1)) <= set(updates.tolist()):
        return WINDOW
    return int(trace.segments[max(0, len(trace.segments) - QUERIES - 1)].old), int(updates[-1])


def marks_of(segments: list[Segment]) -> Marks:
    return Marks(
        written=np.concatenate([segment.written for segment in segments]),
        old=np.array([segment.old for segment in segments]),
        attended=np.unique(np.concatenate([segment.attended for segment in segments])),
        queries=[
            Query(segment.old, segment.old + QUERY, int(segment.attended[QUERY - 1]))
            for segment in segments
            if len(segment.attended) >= QUERY
        ],
    )


def _draw_rows(axes: Axes, marks: Marks, first: int, last: int, ticks: int) -> None:
    heights = dict(zip(ROWS, range(len(ROWS) - 1, -1, -1), strict=True))
    numbers = {
        "remembered": marks.written,
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


def _draw_marks(axes: Axes, at: Int[np.ndarray, " mark"], height: int, color: str, **look: Any) -> None:
    axes.vlines(at, height - HALF_LENGTH, height + HALF_LENGTH, color=color, **look)
