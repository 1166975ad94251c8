"""The distances between policies and β over the updates of one iteration: why β sits at its upper value.

β is β_max where D(θ_old, θ) > D(θ_old, ψ), so the radius of the trust region is D(θ_old, ψ). What this shows is how far
ψ, mixed from what was remembered in the same iteration, gets behind θ.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from trustax.paper.figures.sheet import SMALL, by_task, name_panel, paired_sheet
from trustax.paper.figures.timeline import window
from trustax.paper.trace.trace import Segment, Trace
from trustax.plotting.curves import COLORS, FAINT_INK

DISTANCES = {
    "kl_old_new": ("D(θ_old, θ)", COLORS[0], "-"),
    "kl_old_virtual": ("D(θ_old, ψ)", COLORS[1], "-"),
    "kl_new_virtual": ("D(θ, ψ)", COLORS[2], ":"),
}
SMOOTHED = 0.1
"""Lines show the mean over this share of the updates before and after, since single minibatches scatter."""


def draw_withins(traces: Sequence[Trace]) -> dict[str, Figure]:
    """A figure for each task, of those methods whose β switches."""
    switching = [trace for trace in traces if trace.run.algorithm.kl_cost_rule == "switching"]
    return {task: draw_within(found) for task, found in by_task(switching).items()}


def draw_within(traces: Sequence[Trace]) -> Figure:
    """A column for each method that was traced on a task: distances, what was remembered, β."""
    chosen = [_middle(trace) for trace in traces]
    shares = {
        trace.method: np.concatenate([outside(trace, segment) for segment in trace.segments]).mean() for trace in traces
    }
    caption = (
        f"Iteration {chosen[0].iteration + 1} of {traces[0].run.num_iterations}; dots: single minibatches, lines: "
        "their running mean. D(θ_old, θ) says how far θ has gone, D(θ_old, ψ) how far it may go before β is β_max. "
        "Share of the updates with β = β_max, over all iterations that were kept: "
        f"{', '.join(f'{share:.0%} ({method})' for method, share in shares.items())}. One seed, protocol "
        f"{traces[0].protocol}."
    )
    title = f"Within an iteration of MCPO on {traces[0].task}"
    figure, panels = paired_sheet(title, caption, len(traces), 5.4, (4, 1))
    for trace, segment, (above, below) in zip(traces, chosen, panels.T, strict=True):
        _draw_distances(above, segment)
        _draw_switch(below, segment, outside(trace, segment))
        name_panel(above, trace.method)
    panels[0, 0].set_ylabel("KL divergence (nats)")
    panels[0, 0].legend(loc="lower right", fontsize=SMALL)
    return figure


def outside(trace: Trace, segment: Segment) -> Bool[np.ndarray, " update"]:
    """At which updates β is β_max."""
    algorithm = trace.run.algorithm
    return segment.series["beta"] > (algorithm.kl_cost_min + algorithm.kl_cost_max) / 2


def _middle(trace: Trace) -> Segment:
    """An iteration from the window of figure 1a."""
    first, last = window(trace)
    return min(trace.segments, key=lambda segment: abs(segment.updates.mean() - (first + last) / 2))


def _draw_distances(axes: Axes, segment: Segment) -> None:
    number = segment.updates - segment.old
    for name, (label, color, style) in DISTANCES.items():
        # θ begins as θ_old, and a logarithm knows no zero.
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
    """As people write it, without the mathematics that the style switches off.

    >>> power_of_ten(1e-4)
    '10⁻⁴'
    """
    return "10" + str(round(np.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def smooth(values: Float[np.ndarray, " update"]) -> Float[np.ndarray, " update"]:
    """A running mean over a tenth of the updates before and after: few at the beginning, where much happens."""
    reach = (SMOOTHED * np.arange(len(values))).astype(int)
    return np.array([np.mean(values[index - width : index + width + 1]) for index, width in enumerate(reach)])


def _draw_switch(axes: Axes, segment: Segment, is_max: Bool[np.ndarray, " update"]) -> None:
    """A mark for each policy that was remembered, and one for each update, by its β."""
    number = segment.updates - segment.old
    rows = {"remembered": segment.written - segment.old, "β = β_max": number[is_max], "β = β_min": number[~is_max]}
    for height, (color, at) in enumerate(zip((COLORS[1], COLORS[6], COLORS[5]), rows.values(), strict=True)):
        axes.vlines(at, -height - 0.38, -height + 0.38, color=color, linewidth=0.9)
    axes.set_yticks([0, -1, -2], list(rows), fontsize=SMALL)
    axes.tick_params(axis="y", labelcolor=FAINT_INK)
    axes.grid(False)
    axes.set_xlabel("update since θ_old")
