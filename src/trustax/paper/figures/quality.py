"""Figure 1b: the returns of the virtual policy ψ and of the old policy over training."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trustax.paper.figures.panels import SMALL, by_task, draw_band, make_paired_figure, set_panel_title
from trustax.paper.trace.trace import EPISODES, Trace
from trustax.plotting.curves import COLORS, FAINT_INK, INK, label_axes

OLD, VIRTUAL = COLORS[:2]


def draw_qualities(traces: Sequence[Trace]) -> dict[str, Figure]:
    """Draw one figure per task."""
    return {task: draw_quality(found) for task, found in by_task(traces).items()}


def draw_quality(traces: Sequence[Trace]) -> Figure:
    """Draw one column per method that was traced on a task."""
    seeds = " to ".join(map(str, sorted({trace.run.num_seeds for trace in traces})))
    caption = (
        "θ_old: the policy that collected the data of an iteration; ψ: the virtual policy at its end, "
        f"a mixture of policies that may have learned from these data. {EPISODES} test episodes each, with the same "
        f"seeds and sampled actions; mean over {seeds} seeds. Top, bands: ± one standard deviation over seeds. Bottom, "
        f"lines and ±: one standard error of the mean difference. Protocol {traces[0].protocol}."
    )
    title = f"Returns of the virtual and the old policy on {traces[0].task}"
    figure, panels = make_paired_figure(title, caption, len(traces), 5.2, (2, 1))
    for trace, (above, below) in zip(traces, panels.T, strict=True):
        _draw_returns(above, trace)
        _draw_difference(below, trace)
        set_panel_title(above, trace.method)
        set_panel_title(below, f"{mean_improvement(trace)} over all points")
    panels[0, 0].set_ylabel("return")
    panels[1, 0].set_ylabel("ψ minus θ_old")
    return figure


def mean_returns(trace: Trace, policy: str) -> Float[np.ndarray, "checkpoint seed"]:
    """The mean return of each checkpoint and seed."""
    return np.array([getattr(checkpoint, policy).mean(axis=1) for checkpoint in trace.checkpoints])


def mean_improvement(trace: Trace) -> str:
    """The mean difference between the returns of ψ and θ_old, with its standard error over seeds."""
    seeds = (mean_returns(trace, "virtual") - mean_returns(trace, "old")).mean(axis=0)
    error = f" ± {seeds.std(ddof=1) / np.sqrt(len(seeds)):.3f}" if len(seeds) > 1 else ""
    return f"{seeds.mean():+.3f}{error}".replace("-", "−")


def _draw_returns(axes: Axes, trace: Trace) -> None:
    steps = np.array([checkpoint.steps for checkpoint in trace.checkpoints])
    for policy, name, color, style in (("virtual", "ψ", VIRTUAL, "-"), ("old", "θ_old", OLD, "--")):
        returns = mean_returns(trace, policy)
        mean, spread = returns.mean(axis=1), returns.std(axis=1)
        draw_band(axes, steps, mean, spread, color, label=name, linestyle=style, markersize=4)
    label_axes(axes, "", int(steps[-1]))
    axes.set_xlabel("")
    axes.legend(loc="upper left", fontsize=SMALL)


def _draw_difference(axes: Axes, trace: Trace) -> None:
    steps = np.array([checkpoint.steps for checkpoint in trace.checkpoints])
    difference = mean_returns(trace, "virtual") - mean_returns(trace, "old")
    num_seeds = difference.shape[1]
    error = difference.std(axis=1, ddof=1) / np.sqrt(num_seeds) if num_seeds > 1 else None
    width = 0.6 * steps[-1] / len(steps)
    error_style = {"elinewidth": 1.2, "ecolor": INK}
    axes.bar(steps, difference.mean(axis=1), width, yerr=error, color=VIRTUAL, alpha=0.75, error_kw=error_style)
    axes.axhline(0, color=FAINT_INK, linewidth=0.8)
    label_axes(axes, "", int(steps[-1]))
    axes.set_xlim(0, steps[-1] + width)
