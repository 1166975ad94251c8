"""MCPO's default beside PPO and the best other method, on all tasks where it has run in full or nearly so."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.paper.experiments import EXPERIMENTS, PARTS, Experiment
from trustax.paper.figures.captions import seeds_text
from trustax.paper.figures.curves import OutcomeByMethod, curve_of, outcomes_on
from trustax.paper.figures.panels import BAND, SMALL, draw_seeds, make_figure, set_panel_title
from trustax.paper.methods import EARLIER_DEFAULTS, MCPO_VARIANTS, METHODS, VARIANTS
from trustax.paper.results import Outcome
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import COLORS, label_axes

TASK_NAMES = [
    *("pendulum", "lunar-lander", "bipedal-walker", "unlock", "unlock-pickup"),
    *EXPERIMENTS["table-2"].tasks,
]
PPO = "PPO ε=0.2"
NUM_COLUMNS = 3


def draw_overview(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """One panel for each task with outcomes of PPO and of MCPO's default, or of its form with a constant target."""
    shown = {task: found for task in TASK_NAMES if (found := _shown_on(task, outcomes, protocol))}
    if not shown:
        return {}
    everything = [outcome for found in shown.values() for outcome in found.values()]
    caption = (
        f"{seeds_text(everything)}; {BAND}. Green: the best other method of the paper, by its final mean, where others "
        f"have run. Protocol {protocol}."
    )
    rows = -(-len(shown) // NUM_COLUMNS)
    size = (10.5, 2.6 * rows + 0.9)
    figure, panels = make_figure("MCPO beside PPO and the best other method", caption, size, (rows, NUM_COLUMNS))
    for axes, (task, found) in zip(panels.flat, shown.items(), strict=False):
        set_panel_title(axes, task)
        _draw_task(axes, task, found)
    for axes in list(panels.flat)[len(shown) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("episode return")
    return {"": figure}


def _shown_on(task: str, outcomes: Sequence[Outcome], protocol: str) -> OutcomeByMethod:
    """MCPO's default, PPO and the best other method on a task; empty if one of the first two has not run."""
    experiment = Experiment(title="", methods=list(METHODS), variants=list(VARIANTS), tasks=[task])
    found = {
        method: outcome
        for method, outcome in outcomes_on(task, experiment, outcomes, protocol).items()
        if outcome.steps[-1] >= 0.9 * TASKS[task].total_timesteps
    }
    defaults = [name for name in (*MCPO_VARIANTS, *EARLIER_DEFAULTS) if not name.endswith("literal")]
    own = [method for method in defaults if method in found]
    if not own or PPO not in found:
        return {}
    others = [method for method in found if method in METHODS and method not in (PPO, *PARTS) and "MCPO" not in method]
    best = sorted(others, key=lambda method: float(np.nanmean(found[method].final)))[-1:]
    return {method: found[method] for method in (own[0], PPO, *best)}


def _draw_task(axes: Axes, task: str, found: OutcomeByMethod) -> None:
    for (method, outcome), color, style in zip(found.items(), COLORS, ("-", "--", ":"), strict=False):
        name = "MCPO" if method in MCPO_VARIANTS else method
        if method in EARLIER_DEFAULTS:
            name = f"MCPO, {method.split(maxsplit=2)[2]}"
        curve = curve_of(outcome, outcome.returns)
        draw_seeds(axes, curve, color, linestyle=style, label=name, linewidth=1.8)
    label_axes(axes, "", TASKS[task].total_timesteps)
    axes.set_xlabel("")
    axes.legend(fontsize=SMALL - 1)
