"""What MCPO did over training, from the details beside its outcomes: the slot that is attended to most, and α."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from trustax.paper.experiments import EXPERIMENTS, Experiment
from trustax.paper.figures.captions import averaged, lacking
from trustax.paper.figures.curves import Found, found_on
from trustax.paper.figures.sheet import BAND, add_legend, draw_band, look_of, name_panel, sheet
from trustax.paper.results import Outcome
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import COLORS, FAINT_INK, label_axes

RANK, ALPHA = "mcpo/attended_rank", "mcpo/alpha"
SLOTS = {"humanoid": 35, "humanoid-standup": 35, "hopper": 25}
"""Where the paper's figure 1c ends, as its text says: j* > 35, j* > 35, j* ~ 25."""


def draw_slots(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """Figure 1c: which rank of the memory is attended to most."""
    experiment = EXPERIMENTS["figure-1c"]
    rows = experiment.rows
    found = {task: _detailed(task, experiment, outcomes, protocol) for task in experiment.tasks}
    if not any(found.values()):
        return {}
    caption = (
        "Rank 0 is the newest policy in memory, rank 39 the oldest; each point is the mean over an iteration. "
        f"{averaged(outcome for each in found.values() for outcome in each.values())}; {BAND}. Dashed: where it ends "
        f"in the paper (above 35, above 35, about 25). Protocol {protocol}.{lacking(rows, found)}"
    )
    figure, panels = sheet("The slot that attention prefers", caption, (9.0, 3.8), (1, len(found)), sharey=True)
    for axes, (task, each) in zip(panels[0], found.items(), strict=True):
        name_panel(axes, task)
        for method, outcome in each.items():
            mean, spread = outcome.details[RANK]
            draw_band(axes, np.array(outcome.steps), mean, spread, look_of(rows, method)[0], label=method)
        axes.axhline(SLOTS[task], color=FAINT_INK, linestyle="--", linewidth=1)
        label_axes(axes, "", max((outcome.steps[-1] for outcome in each.values()), default=TASKS[task].total_timesteps))
        axes.set_ylim(-1, 40)
    panels[0, 0].set_ylabel("most attended rank")
    add_legend(figure, rows, panels, loc="outside upper right", ncols=len(rows))
    return {"": figure}


def draw_alpha(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """The weight of the virtual trust region."""
    experiment = EXPERIMENTS["alpha"]
    (task,), (method,) = experiment.tasks, experiment.methods
    found = _detailed(task, experiment, outcomes, protocol)
    if not found:
        return {}
    outcome = found[method]
    caption = (
        f"{averaged([outcome])}; {BAND}; each point is the mean over an iteration. Above 0.5, ψ promises more than the "
        f"old policy. The learning rate does not decay. Protocol {protocol}."
    )
    figure, panels = sheet(f"Weight α of the virtual trust region: {method} on {task}", caption, (7.0, 4.0))
    axes = panels[0, 0]
    mean, spread = outcome.details[ALPHA]
    draw_band(axes, np.array(outcome.steps), mean, spread, COLORS[0])
    axes.axhline(0.5, color=FAINT_INK, linestyle="--", linewidth=1)
    label_axes(axes, "mean α", outcome.steps[-1])
    return {"": figure}


def _detailed(task: str, experiment: Experiment, outcomes: Sequence[Outcome], protocol: str) -> Found:
    """Those outcomes that tell what MCPO did."""
    found = found_on(task, experiment, outcomes, protocol)
    return {method: outcome for method, outcome in found.items() if outcome.details}
