"""The ablations: final returns, on BipedalWalkerHardcore beside the paper's margins, and learning curves."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.cli.formatting import short_count
from trustax.paper.experiments import EXPERIMENTS, TABLE_1
from trustax.paper.figures.captions import length_text, missing_text, seeds_text
from trustax.paper.figures.curves import OutcomeByMethod, curve_of, outcomes_on
from trustax.paper.figures.families import Line, draw_families, families_caption, family_and_setting
from trustax.paper.figures.panels import SMALL, make_figure
from trustax.paper.results import Outcome
from trustax.paper.tables.targets import TARGETS
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import COLORS, FAINT_INK, INK

REFERENCE = "MCPO N=10"
COMPONENTS = {
    "Memory size": ["MCPO N=5", REFERENCE, "MCPO N=40", "MCPO N=10 default", "MCPO N=10 literal"],
    "Virtual policy": ["No ψ", "α=0.5", "α=1.0"],
    "β": ["Annealed β", "Adaptive β"],
    "Writing": ["Frequent writing", "Uniform writing", "Sparse writing"],
    "Mixing": ["Mean ψ N=10", "Half feature"],
}
"""The components of MCPO and their variants."""
ROW_HEIGHT = 0.22


def draw_ablation(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    experiment = EXPERIMENTS["ablation"]
    (task,) = experiment.tasks
    found = outcomes_on(task, experiment, outcomes, protocol)
    if not found:
        return {}
    return {"finals": _draw_finals(task, found, groups(), protocol), "curves": _draw_curves(task, found, protocol)}


def draw_full_ablation(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Final returns on each task on which the ablation runs in full, once a variant has run."""
    experiment = EXPERIMENTS["ablation-full"]
    found = {task: outcomes_on(task, experiment, outcomes, protocol) for task in experiment.tasks}
    variants = {method for group, methods in COMPONENTS.items() if group != "Memory size" for method in methods}
    return {task: _draw_finals(task, own, COMPONENTS, protocol) for task, own in found.items() if own.keys() & variants}


def groups() -> dict[str, list[str]]:
    """The methods of the ablation, grouped by the component that differs."""
    return COMPONENTS | {"Other methods": TABLE_1}


def _draw_finals(task: str, found: OutcomeByMethod, groups: dict[str, list[str]], protocol: str) -> Figure:
    """Draw one row per method in the paper's order, from the top.

    It has points rather than bars, because returns may be negative and have no natural zero.
    """
    count = sum(map(len, groups.values())) + len(groups)
    length = length_text(found.values(), TASKS[task].total_timesteps)
    has_margins = task in EXPERIMENTS["ablation"].tasks and REFERENCE in found and not length
    mark = f" ◆: {REFERENCE} plus the margin given in the paper's text, ± 25." if has_margins else ""
    spread = any(len(outcome.returns) > 1 for outcome in found.values())
    lines = "; small points: the seeds; lines: ± one standard deviation" if spread else ""
    caption = f"{seeds_text(found.values())}{lines}.{length}{mark} Protocol {protocol}."
    figure, panels = make_figure(f"Final return on {task}", caption, (8.0, count * ROW_HEIGHT + 1.4))
    axes = panels[0, 0]
    height, ticks = 0.0, {}
    for index, (group, methods) in enumerate(groups.items()):
        axes.text(
            0, -height, group, transform=axes.get_yaxis_transform(), fontsize=SMALL, fontweight="bold", va="center"
        )
        for method in methods:
            height += 1
            ticks[method] = -height
            _draw_final(axes, -height, found.get(method), COLORS[index])
            if has_margins:
                _draw_margin(axes, -height, method, found[REFERENCE])
        height += 1.4
    axes.set_yticks(list(ticks.values()), list(ticks), fontsize=SMALL)
    axes.set_ylim(-height + 0.7, 0.6)
    axes.grid(False)
    axes.grid(axis="x")
    axes.set_xlabel("mean return of the last 100 episodes")
    return figure


def _draw_final(axes: Axes, height: float, outcome: Outcome | None, color: str) -> None:
    """Draw the mean and the seeds of a method; pale, with the number of steps, if the run stopped before its end."""
    note = partial(axes.text, transform=axes.get_yaxis_transform(), va="center", color=FAINT_INK, fontsize=SMALL - 1)
    if outcome is None:
        note(0.01, height, "not run yet")
        return
    if not outcome.is_complete:
        note(1.01, height, f"stopped after {short_count(outcome.steps[-1])} steps")
    final = outcome.final[np.isfinite(outcome.final)]
    strength = 1.0 if outcome.is_complete else 0.4
    axes.plot(final, np.full(len(final), height), ".", color=color, alpha=0.4 * strength, markersize=5)
    spread = final.std() if len(final) > 1 else None
    axes.errorbar(final.mean(), height, xerr=spread, fmt="o", color=color, alpha=strength, markersize=6, elinewidth=1.4)


def _draw_margin(axes: Axes, height: float, method: str, reference: Outcome) -> None:
    margin = TARGETS["ablation"].get(method, {}).get("margin")
    if margin is None:
        return
    place = float(np.nanmean(reference.final)) + margin.mean
    axes.errorbar(place, height, xerr=margin.tolerance, fmt="D", color=INK, markersize=4, elinewidth=0.8, alpha=0.7)


def _draw_curves(task: str, found: OutcomeByMethod, protocol: str) -> Figure:
    panels: dict[str, list[Line]] = {}
    for group, methods in COMPONENTS.items():
        # Every panel also shows MCPO with all components.
        for method in methods if REFERENCE in methods else [REFERENCE, *methods]:
            _add_line(panels, group, _short(method), found.get(method))
    for method in TABLE_1:
        _add_line(panels, *family_and_setting(method), found.get(method))
    experiment, steps = EXPERIMENTS["ablation"], TASKS[task].total_timesteps
    caption = (
        f"{seeds_text(found.values())}.{length_text(found.values(), steps)} {families_caption(panels, steps)} "
        f"N=10: MCPO with all components. Protocol {protocol}.{missing_text(experiment.rows, {task: found})}"
    )
    return draw_families(f"Ablation on {task}", caption, panels)


def _add_line(panels: dict[str, list[Line]], group: str, label: str, outcome: Outcome | None) -> None:
    if outcome is not None:
        panels.setdefault(group, []).append(Line(label, curve_of(outcome, outcome.returns)))


def _short(method: str) -> str:
    """The shortest label that is unique within the panel."""
    return method.removeprefix("MCPO ").removesuffix(" writing").removesuffix(" N=10")
