"""Methods over all tasks of a table: performance profiles, and the probability that MCPO beats each other method.

After Agarwal et al. (2021), *Deep Reinforcement Learning at the Edge of the Statistical Precipice*.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.paper.experiments import EXPERIMENTS
from trustax.paper.figures.panels import SMALL, add_legend, line_style_of, make_figure, set_panel_title
from trustax.paper.results import Outcome
from trustax.paper.tables.scores import samples_of
from trustax.paper.tables.tables import REFERENCES, complete_scores, is_rescaled
from trustax.plotting.curves import COLORS, FAINT_INK, INK
from trustax.sweeps.statistics import Scores, bootstrap_interval, performance_profile, probability_of_improvement

TABLES = ("table-1", "table-2", "minigrid", "ablation-default")
THRESHOLDS = 101
REPEATS = 500


def draw_profiles(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Draw one figure per table in which `MCPO()` and at least one other method ran in full on all tasks.

    The literal reading is left out: its scores are so low that they hide the differences between the others.
    """
    figures = {}
    for table in TABLES:
        _, samples = samples_of(table, protocol, outcomes)
        samples = {row: sample for row, sample in samples.items() if not row.endswith("literal")}
        scores = complete_scores(table, samples)
        lacking = [row for row in samples if row not in scores]
        if REFERENCES[table] in scores and len(scores) > 1:
            figures[table] = _draw(table, scores, lacking, protocol)
    return figures


def _draw(table: str, scores: dict[str, Scores], lacking: list[str], protocol: str) -> Figure:
    reference = REFERENCES[table]
    scale = "; 0 and 1 are the paper's worst and best mean on a task" if is_rescaled(table) else ""
    left_out = f" Excluded, because they have not run in full: {', '.join(lacking)}." if lacking else ""
    caption = (
        f"Left: the fraction of runs with a final score above a threshold, averaged over tasks{scale}. Right: the "
        f"probability that a run of {reference} scores higher than one of the other method. Band and lines: 95% "
        f"intervals from resampled seeds. Protocol {protocol}.{left_out}"
    )
    figure, panels = make_figure(
        f"{EXPERIMENTS[table].title}: all tasks", caption, (9.0, 5.2), (1, 2), width_ratios=(1.5, 1)
    )
    left, right = panels[0]
    _draw_profiles(left, scores, reference)
    others = [row for row in scores if row != reference]
    _draw_improvements(right, {row: scores[row] for row in others}, scores[reference])
    set_panel_title(left, "Performance profiles")
    set_panel_title(right, f"P({reference} is better)")
    left.set_xlabel("final score, rescaled" if is_rescaled(table) else "final score")
    left.set_ylabel("fraction of runs above it")
    add_legend(figure, list(scores), panels, loc="outside right center")
    return figure


def _draw_profiles(axes: Axes, scores: dict[str, Scores], reference: str) -> None:
    every = np.concatenate([runs for each in scores.values() for runs in each])
    thresholds = np.linspace(every.min(), every.max(), THRESHOLDS)
    for row, each in scores.items():
        profile = performance_profile(each, thresholds)
        color, style = line_style_of(list(scores), row)
        if row == reference:
            statistic = partial(performance_profile, thresholds=thresholds)
            low, high = bootstrap_interval(statistic, each, repeats=REPEATS)
            axes.fill_between(thresholds, low, high, color=color, alpha=0.12, linewidth=0)
        width = 2.6 if row == reference else 1.4
        axes.plot(thresholds, profile, color=color, linestyle=style, label=row, linewidth=width)
    axes.set_ylim(-0.02, 1.02)


def _draw_improvements(axes: Axes, others: dict[str, Scores], reference: Scores) -> None:
    for height, each in enumerate(others.values()):
        value = float(probability_of_improvement(reference, each))
        low, high = bootstrap_interval(probability_of_improvement, reference, each, repeats=REPEATS)
        axes.errorbar(
            value, -height, xerr=[[value - low], [high - value]], fmt="o", color=COLORS[0], ecolor=INK, elinewidth=1.1
        )
    axes.axvline(0.5, color=FAINT_INK, linestyle="--", linewidth=1)
    axes.set_yticks(range(0, -len(others), -1), list(others), fontsize=SMALL)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("probability")
    axes.grid(False)
    axes.grid(axis="x")
