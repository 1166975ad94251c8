"""The distances between policies and β over the updates of one iteration: why β stays at its maximum.

β is β_max if D(θ_old, θ) > D(θ_old, ψ), so the radius of the trust region is D(θ_old, ψ). The figure shows how far ψ,
a mixture of the policies stored in the same iteration, lags behind θ.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from trustax.paper.figures.panels import SMALL, by_task, make_paired_figure, set_panel_title
from trustax.paper.figures.timeline import window
from trustax.paper.trace.trace import Segment, Trace
from trustax.plotting.curves import COLORS, FAINT_INK

DISTANCES = {
    "kl_old_new": ("D(θ_old, θ)", COLORS[0], "-"),
    "kl_old_virtual": ("D(θ_old, ψ)", COLORS[1], "-"),
    "kl_new_virtual": ("D(θ, ψ)", COLORS[2], ":"),
}
SMOOTHED = 0.1
"""Half-width of the running mean, as a fraction of the updates so far; single minibatches are noisy."""


def draw_iteration_details(traces: Sequence[Trace]) -> dict[str, Figure]:
    """Draw one figure per task, for the methods whose β switches."""
    switching = [trace for trace in traces if trace.run.algorithm.kl_cost_rule == "switching"]
    return {task: draw_iteration_detail(found) for task, found in by_task(switching).items()}


def draw_iteration_detail(traces: Sequence[Trace]) -> Figure:
    """Draw one column per traced method: distances between policies, memory writes and β."""
    chosen = [_segment_in_window(trace) for trace in traces]
    shares = {
        trace.method: np.concatenate([at_beta_max(trace, segment) for segment in trace.segments]).mean()
        for trace in traces
    }
    caption = (
        f"Iteration {chosen[0].iteration + 1} of {traces[0].run.num_iterations}; dots: single minibatches, lines: "
        "running means. D(θ_old, θ) is how far θ has moved, D(θ_old, ψ) how far it may move before β is β_max. "
        "Fraction of updates with β = β_max, over all recorded iterations: "
        f"{', '.join(f'{share:.0%} ({method})' for method, share in shares.items())}. One seed, protocol "
        f"{traces[0].protocol}."
    )
    title = f"Within an iteration of MCPO on {traces[0].task}"
    figure, panels = make_paired_figure(title, caption, len(traces), 5.4, (4, 1))
    for trace, segment, (above, below) in zip(traces, chosen, panels.T, strict=True):
        _draw_distances(above, segment)
        _draw_switch(below, segment, at_beta_max(trace, segment))
        set_panel_title(above, trace.method)
    panels[0, 0].set_ylabel("KL divergence (nats)")
    panels[0, 0].legend(loc="lower right", fontsize=SMALL)
    return figure


def at_beta_max(trace: Trace, segment: Segment) -> Bool[np.ndarray, " update"]:
    """For each update, whether β is β_max."""
    algorithm = trace.run.algorithm
    return segment.series["beta"] > (algorithm.kl_cost_min + algorithm.kl_cost_max) / 2


def _segment_in_window(trace: Trace) -> Segment:
    """The iteration in the middle of the window of figure 1a."""
    first, last = window(trace)
    return min(trace.segments, key=lambda segment: abs(segment.updates.mean() - (first + last) / 2))


def _draw_distances(axes: Axes, segment: Segment) -> None:
    number = segment.updates - segment.old
    for name, (label, color, style) in DISTANCES.items():
        # θ starts at θ_old, where the distance is 0 and has no logarithm.
        values, mean = (np.where(x > 0, x, np.nan) for x in (segment.series[name], smooth(segment.series[name])))
        axes.plot(number, values, ".", color=color, markersize=1.5, alpha=0.35)
        axes.plot(number, mean, color=color, linestyle=style, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(0.9, number[-1])
    axes.tick_params(axis="y", which="minor", left=False)


def power_of_ten(value: float) -> str:
    """Format a power of ten without math text, which the style disables.

    >>> power_of_ten(1e-4)
    '10⁻⁴'
    """
    return "10" + str(round(np.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def smooth(values: Float[np.ndarray, " update"]) -> Float[np.ndarray, " update"]:
    """A running mean whose window grows with the update number: narrow at the start, where values change fast."""
    reach = (SMOOTHED * np.arange(len(values))).astype(int)
    return np.array([np.mean(values[index - width : index + width + 1]) for index, width in enumerate(reach)])


def _draw_switch(axes: Axes, segment: Segment, is_max: Bool[np.ndarray, " update"]) -> None:
    """Mark the updates that wrote to memory, and the β of every update."""
    number = segment.updates - segment.old
    rows = {"stored": segment.written - segment.old, "β = β_max": number[is_max], "β = β_min": number[~is_max]}
    for height, (color, at) in enumerate(zip((COLORS[1], COLORS[6], COLORS[5]), rows.values(), strict=True)):
        axes.vlines(at, -height - 0.38, -height + 0.38, color=color, linewidth=0.9)
    axes.set_yticks([0, -1, -2], list(rows), fontsize=SMALL)
    axes.tick_params(axis="y", labelcolor=FAINT_INK)
    axes.grid(False)
    axes.set_xlabel("update since θ_old")
