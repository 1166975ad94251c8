"""MCPO's default beside PPO and the best other method, on all tasks where it has run in full or nearly so."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.cli.formatting import short_count
from trustax.paper.experiments import EXPERIMENTS, PARTS, Experiment
from trustax.paper.figures.captions import seeds_text
from trustax.paper.figures.curves import OutcomeByMethod, curve_of, outcomes_on
from trustax.paper.figures.panels import BAND, SMALL, draw_seeds, make_figure, set_panel_title
from trustax.paper.methods import METHODS, VARIANTS
from trustax.paper.results import Outcome
from trustax.paper.tasks import TASKS
from trustax.plotting.curves import COLORS, label_axes

TASK_NAMES = [
    *("pendulum", "lunar-lander", "bipedal-walker", "unlock", "unlock-pickup"),
    *EXPERIMENTS["table-2"].tasks,
]
DEFAULTS = "MCPO N=10 default", "MCPO N=40 default"
"""`MCPO()`, and its form with the memory size of the MuJoCo tasks."""
NUM_COLUMNS = 4
MIN_SEEDS = 3
"""Outcomes with fewer seeds are left out: a line without a spread says little."""


def draw_overview(outcomes: Sequence[Outcome], protocol: str) -> dict[str, Figure]:
    """One panel for each task with outcomes of MCPO's default and of another method."""
    shown = {task: found for task in TASK_NAMES if (found := _shown_on(task, outcomes, protocol))}
    if not shown:
        return {}
    everything = [outcome for found in shown.values() for outcome in found.values()]
    caption = (
        f"{seeds_text(everything)}; {BAND}. Orange: PPO with its best setting; PPO() has the initial σ of MCPO(), the "
        f"others have σ = 1. Green: the best other method of the paper, by its final mean. Both where they have run. "
        f"Protocol {protocol}.{_stopped_early(shown)}"
    )
    rows = -(-len(shown) // NUM_COLUMNS)
    size = (13.0, 2.6 * rows + 0.9)
    figure, panels = make_figure("MCPO beside PPO and the best other method", caption, size, (rows, NUM_COLUMNS))
    for axes, (task, found) in zip(panels.flat, shown.items(), strict=False):
        set_panel_title(axes, task)
        _draw_task(axes, task, found)
    for axes in list(panels.flat)[len(shown) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("episode return")
    return {"": figure}


def _stopped_early(shown: dict[str, OutcomeByMethod]) -> str:
    """Which lines are shorter than the paper's runs, as the end of the caption."""
    short = [
        f"{method} on {task} at {short_count(outcome.steps[-1])}"
        for task, found in shown.items()
        for method, outcome in found.items()
        if not outcome.is_complete
    ]
    return f" Stopped early: {', '.join(short)}." if short else ""


def _shown_on(task: str, outcomes: Sequence[Outcome], protocol: str) -> OutcomeByMethod:
    """MCPO's default, the best PPO and the best other method on a task; empty if nothing ran beside MCPO's default."""
    experiment = Experiment(title="", methods=list(METHODS), variants=list(VARIANTS), tasks=[task])
    found = {
        method: outcome
        for method, outcome in outcomes_on(task, experiment, outcomes, protocol).items()
        if outcome.steps[-1] >= 0.9 * TASKS[task].total_timesteps and len(outcome.returns) >= MIN_SEEDS
    }
    own = [method for method in DEFAULTS if method in found][:1]
    ppo = [method for method in found if method.startswith("PPO")]
    others = [method for method in found if method in METHODS and method not in (*ppo, *PARTS) and "MCPO" not in method]
    if not own or not (ppo or others):
        return {}
    return {method: found[method] for method in (*own, *_best(found, ppo), *_best(found, others))}


def _best(found: OutcomeByMethod, methods: list[str]) -> list[str]:
    """The method with the highest final mean, as a list; empty if there is none."""
    return sorted(methods, key=lambda method: float(np.nanmean(found[method].final)))[-1:]


def _draw_task(axes: Axes, task: str, found: OutcomeByMethod) -> None:
    for method, outcome in found.items():
        role = 0 if method in DEFAULTS else 1 if method.startswith("PPO") else 2
        name = ("MCPO()", "PPO()" if method.endswith(" default") else method, method)[role]
        curve = curve_of(outcome, outcome.returns)
        draw_seeds(axes, curve, COLORS[role], linestyle=("-", "--", ":")[role], label=name, linewidth=1.8)
    label_axes(axes, "", TASKS[task].total_timesteps)
    axes.set_xlabel("")
    axes.legend(fontsize=SMALL - 1)
