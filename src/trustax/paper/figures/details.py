"""MCPO's metrics over training: the memory slot with the highest attention, and α."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from trustax.paper.experiments import EXPERIMENTS, Experiment
from trustax.paper.figures.captions import missing_text, seeds_text
from trustax.paper.figures.curves import OutcomeByMethod, outcomes_on
from trustax.paper.figures.panels import BAND, add_legend, draw_band, line_style_of, make_figure, set_panel_title
from trustax.paper.results import Outcome
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import COLORS, FAINT_INK, label_axes

RANK, ALPHA = "mcpo/attended_rank", "mcpo/alpha"
PAPER_RANKS = {"humanoid": 35, "humanoid-standup": 35, "hopper": 25}
"""The final ranks of the paper's figure 1c, from its text: j* > 35, j* > 35, j* ~ 25."""


def draw_slots(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Draw figure 1c: the rank of the memory slot with the highest attention."""
    experiment = EXPERIMENTS["figure-1c"]
    rows = experiment.rows
    found = {task: _with_details(task, experiment, outcomes, protocol) for task in experiment.tasks}
    if not any(found.values()):
        return {}
    caption = (
        "Rank 0 is the newest policy in memory, rank 39 the oldest; each point is the mean over an iteration. "
        f"{seeds_text(outcome for each in found.values() for outcome in each.values())}; {BAND}. Dashed: the final "
        f"rank in the paper (above 35, above 35, about 25). Protocol {protocol}.{missing_text(rows, found)}"
    )
    figure, panels = make_figure("The slot that attention prefers", caption, (9.0, 3.8), (1, len(found)), sharey=True)
    for axes, (task, each) in zip(panels[0], found.items(), strict=True):
        set_panel_title(axes, task)
        for method, outcome in each.items():
            mean, spread = outcome.details[RANK]
            draw_band(axes, np.array(outcome.steps), mean, spread, line_style_of(rows, method)[0], label=method)
        axes.axhline(PAPER_RANKS[task], color=FAINT_INK, linestyle="--", linewidth=1)
        label_axes(axes, "", max((outcome.steps[-1] for outcome in each.values()), default=TASKS[task].total_timesteps))
        axes.set_ylim(-1, 40)
    panels[0, 0].set_ylabel("most attended rank")
    add_legend(figure, rows, panels, loc="outside upper right", ncols=len(rows))
    return {"": figure}


def draw_alpha(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Draw the weight of the virtual trust region."""
    experiment = EXPERIMENTS["alpha"]
    (task,), (method,) = experiment.tasks, experiment.methods
    found = _with_details(task, experiment, outcomes, protocol)
    if not found:
        return {}
    outcome = found[method]
    caption = (
        f"{seeds_text([outcome])}; {BAND}; each point is the mean over an iteration. Above 0.5, ψ is estimated to be "
        f"better than the old policy. The learning rate does not decay. Protocol {protocol}."
    )
    figure, panels = make_figure(f"Weight α of the virtual trust region: {method} on {task}", caption, (7.0, 4.0))
    axes = panels[0, 0]
    mean, spread = outcome.details[ALPHA]
    draw_band(axes, np.array(outcome.steps), mean, spread, COLORS[0])
    axes.axhline(0.5, color=FAINT_INK, linestyle="--", linewidth=1)
    label_axes(axes, "mean α", outcome.steps[-1])
    return {"": figure}


def _with_details(task: str, experiment: Experiment, outcomes: Sequence[Outcome], protocol: str) -> OutcomeByMethod:
    """The outcomes that include MCPO's metrics."""
    found = outcomes_on(task, experiment, outcomes, protocol)
    return {method: outcome for method, outcome in found.items() if outcome.details}
