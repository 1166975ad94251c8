"""Learning curves of all methods on each task of the tables, and of the navigation tasks."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.paper.experiments import EXPERIMENTS, PARTS, Experiment
from trustax.paper.figures.captions import missing_text, seeds_text
from trustax.paper.figures.families import Line, best_of, draw_families, families_caption, family_and_setting
from trustax.paper.figures.panels import BAND, add_legend, draw_seeds, line_style_of, make_figure, set_panel_title
from trustax.paper.methods import METHODS, VARIANTS
from trustax.paper.results import Outcome, find
from trustax.paper.tables.targets import BEST_OF, TARGETS
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import FAINT_INK, Curve, label_axes

OutcomeByMethod = dict[str, Outcome]
"""Outcomes by method."""

TABLES = ("table-1-full", "table-2", "table-3")
"""Each task of these tables gets a figure."""


def outcomes_on(task: str, experiment: Experiment, outcomes: Iterable[Outcome], protocol: str) -> OutcomeByMethod:
    """The outcomes of an experiment on a task, in the experiment's order."""
    outcomes = list(outcomes)
    found = {method: find(outcomes, method, run) for method, _, run in experiment.cells(protocol, tasks=[task])}
    return {method: outcome for method, outcome in found.items() if outcome is not None}


def curve_of(outcome: Outcome, values: Float[np.ndarray, "seed point"]) -> Curve:
    """The curve of `values`, without the points at which no seed has a value."""
    known = np.isfinite(values).any(axis=0)
    return Curve(np.array(outcome.steps)[known], values.T[known])


def draw_curves(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Draw one figure per task with at least one outcome; the ablations have figures of their own."""
    figures = {}
    methods = [method for method in METHODS if method not in PARTS]
    for table in TABLES:
        for task in EXPERIMENTS[table].tasks:
            everything = Experiment(title="", methods=methods, variants=list(VARIANTS), tasks=[task])
            found = outcomes_on(task, everything, outcomes, protocol)
            if found:
                figures[task] = _draw_task(table, task, found, protocol)
    return figures


def _draw_task(table: str, task: str, found: OutcomeByMethod, protocol: str) -> Figure:
    groups: dict[str, list[Line]] = {}
    for method, outcome in found.items():
        family, setting = family_and_setting(method)
        target = TARGETS[table].get(method, {}).get(task)
        groups.setdefault(family, []).append(Line(setting, curve_of(outcome, outcome.returns), target))
    for family in groups.keys() & BEST_OF.keys() & TARGETS[table].keys():
        # The paper reports only the best setting, so its mark goes to our best line.
        best = best_of(groups[family])
        target = TARGETS[table][family][task]
        groups[family] = [line._replace(target=target) if line is best else line for line in groups[family]]
    caption = (
        f"{seeds_text(found.values())}. {families_caption(groups, TASKS[task].total_timesteps)} Protocol {protocol}."
        f"{missing_text(EXPERIMENTS[table].methods, {task: found})}"
    )
    return draw_families(f"Learning curves on {task}", caption, groups)


def draw_minigrid(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Draw returns in the upper row and success rates in the lower row."""
    experiment = EXPERIMENTS["minigrid"]
    rows = experiment.rows
    found = {task: outcomes_on(task, experiment, outcomes, protocol) for task in experiment.tasks}
    if not any(found.values()):
        return {}
    caption = (
        f"{seeds_text(outcome for each in found.values() for outcome in each.values())}; {BAND}. Dashed: the final "
        f"value of MCPO N=10 in the paper. Protocol {protocol}.{missing_text(rows, found)}"
    )
    figure, panels = make_figure("Navigation", caption, (9.0, 6.2), (2, 2), sharex="col", sharey=True)
    for task, (above, below) in zip(found, panels.T, strict=True):
        set_panel_title(above, task)
        for axes, measure, column in ((above, "returns", task), (below, "successes", f"{task} success")):
            _draw_measure(axes, rows, found[task], measure)
            axes.axhline(TARGETS["minigrid"]["MCPO N=10"][column].mean, color=FAINT_INK, linestyle="--", linewidth=1)
            label_axes(axes, "", TASKS[task].total_timesteps)
            axes.set_ylim(-0.05, 1.05)
        above.set_xlabel("")
    panels[0, 0].set_ylabel("episode return")
    panels[1, 0].set_ylabel("success rate")
    add_legend(figure, rows, panels, loc="outside right center")
    return {"": figure}


def _draw_measure(axes: Axes, rows: Sequence[str], found: OutcomeByMethod, measure: str) -> None:
    for method, outcome in found.items():
        values = getattr(outcome, measure)
        if values is not None:
            color, style = line_style_of(rows, method)
            draw_seeds(axes, curve_of(outcome, values), color, linestyle=style, label=method, linewidth=1.8)
