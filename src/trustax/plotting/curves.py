"""Plots learning curves: the mean over seeds, a band of one standard deviation and, for up to ten seeds, each seed.

Creates its own `Figure` without pyplot and its global state, so no display is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from trustax.cli.formatting import short_count
from trustax.errors import TrustaxError, similar_or_all
from trustax.ops.metrics import EVALUATION_LENGTH, EVALUATION_RETURN, RETURN, STEP
from trustax.plotting.learners import evaluations_of
from trustax.plotting.legend import add_legend

SUFFIXES = (".png", ".svg", ".pdf")
AXIS_LABELS = {
    RETURN: "episode return",
    "rollout/ep_len_mean": "episode length",
    EVALUATION_RETURN: "episode return in evaluations",
    EVALUATION_LENGTH: "episode length in evaluations",
}
MAX_SEEDS_DRAWN = 10
LARGEST = 1e38  # metrics are float32; Matplotlib cannot draw much larger numbers
MAX_POINTS = 4_000
"""Longer curves are thinned to this many points, twice as many as a figure has pixels."""
TITLE_WIDTH = 50
"""Characters in a line of the title."""

# Okabe and Ito's palette, distinguishable with color blindness; the darkest and most distinct colors come first.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")
INK, FAINT_INK, GRID = "#222222", "#6b6b6b", "#e6e6e6"
STYLE: dict[Any, Any] = {
    "figure.figsize": (8.0, 4.4),
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.1,
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "text.usetex": False,
    "text.parse_math": False,  # a run's name may contain dollar signs
    "axes.labelcolor": INK,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 24,
    "axes.edgecolor": "#9a9a9a",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT_INK,
    "ytick.color": FAINT_INK,
    "xtick.major.size": 3.5,
    "ytick.major.size": 0,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.handlelength": 1.6,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


class Curve(NamedTuple):
    """A metric of one run, at the steps where at least one seed has a value; the other seeds are NaN."""

    steps: Int[np.ndarray, " point"]
    values: Float[np.ndarray, "point seed"]

    @property
    def num_seeds(self) -> int:
        return self.values.shape[1]


def plot_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    path: Path | str,
    title: str | None = None,
    metric: str = RETURN,
) -> None:
    """Plot `metric` of each run over environment steps, and save the figure as PNG, SVG or PDF.

    The records of a run's folder include its evaluations: `metric="eval/mean_reward"` plots them.

    >>> from tempfile import mkdtemp
    >>> records = [{"time/total_timesteps": n, "rollout/ep_rew_mean": [n / 2, n / 3]} for n in range(9)]
    >>> plot_curves({"mcpo": records}, Path(mkdtemp()) / "curve.png", title="Pendulum-v1")
    """
    path = Path(path)
    require_suffix(path)
    curves = curves_of(runs, metric)
    if not curves:
        raise TrustaxError(f"nothing to draw in {path}: {reason_for_nothing(runs, metric)}")
    with matplotlib.rc_context(STYLE):
        save(draw(curves, title, AXIS_LABELS.get(metric, metric)), path)


def require_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise TrustaxError(f"{path}: the file name must end in one of {', '.join(SUFFIXES)}")


def save(figure: Figure, path: Path) -> None:
    """Save a figure; create its folder if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise TrustaxError(f"could not save {path}: {error.strerror or error}") from error


def curves_of(runs: Mapping[str, Sequence[Mapping[str, Any]]], metric: str) -> dict[str, Curve]:
    """The curves of the runs that have a value of the metric."""
    curves = {name: to_curve(records, metric) for name, records in runs.items()}
    return {name: curve for name, curve in curves.items() if curve.steps.size}


def reason_for_nothing(runs: Mapping[str, Sequence[Mapping[str, Any]]], metric: str) -> str:
    """Why no run has a curve of a metric."""
    everything = [record for run in runs.values() for part in (run, evaluations_of(run)) for record in thinned(part)]
    known = sorted({name for record in everything for name in record})
    if not known or metric in known:
        return f"{metric} has no value yet, because no episode has finished"
    if metric in (EVALUATION_RETURN, EVALUATION_LENGTH):
        return f"no run folder has {metric}; train with --callbacks evaluate (in Python: tx.Evaluate() and a run_dir)"
    return f"no run has a metric {metric}; {similar_or_all(metric, known)}"


def to_curve(records: Sequence[Mapping[str, Any]], metric: str = RETURN) -> Curve:
    """Convert records to arrays, leaving out those in which no seed has a value of the metric.

    The evaluations of the run are used if they have the metric, and the other records do not.
    """
    having = [record for record in thinned(records) if metric in record]
    having = having or [record for record in thinned(evaluations_of(records)) if metric in record]
    found = [(record[STEP], np.atleast_1d(np.asarray(record[metric], float))) for record in having]
    rows = [(step, row) for step, row in found if np.isfinite(row).any()]
    num_seeds = max((row.size for _, row in rows), default=1)
    values = np.full((len(rows), num_seeds), np.nan)
    for index, (_, row) in enumerate(rows):
        values[index, : row.size] = np.where(np.isfinite(row), np.clip(row, -LARGEST, LARGEST), np.nan)
    return Curve(np.array([step for step, _ in rows], int), values)


def thinned(records: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """At most `MAX_POINTS` records, evenly spaced, with the first and the last."""
    if len(records) <= MAX_POINTS:
        yield from records
    else:
        yield from (records[index] for index in np.linspace(0, len(records) - 1, MAX_POINTS).astype(int).tolist())


def draw(curves: Mapping[str, Curve], title: str | None, label: str) -> Figure:
    """Draw the figure without saving it; call this inside `rc_context(STYLE)`."""
    figure = Figure()
    axes = figure.add_subplot()
    lines = [draw_run(axes, curve, *style_of(index)) for index, curve in enumerate(curves.values())]
    label_axes(axes, label, max(int(curve.steps[-1]) for curve in curves.values()))
    if title:
        axes.set_title(fill(title, TITLE_WIDTH))
    explanation = axes.annotate(
        explanation_of(list(curves.values())),
        xy=(0, 1),
        xytext=(0, 9),
        xycoords="axes fraction",
        textcoords="offset points",
        color=FAINT_INK,
        fontsize=9,
    )
    explanation.set_in_layout(False)  # it may overlap the column of the legend
    add_legend(figure, lines, list(curves))
    return figure


def style_of(index: int) -> tuple[str, str]:
    """The color and the line style of a curve."""
    return COLORS[index % len(COLORS)], LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]


def draw_run(axes: Axes, curve: Curve, color: str, line_style: str) -> Any:
    """Draw the mean over seeds, its band and the seeds; return the line of the mean."""
    mean, spread = np.nanmean(curve.values, axis=1), np.nanstd(curve.values, axis=1)
    # A single point is invisible without a marker.
    marker = "o" if curve.steps.size == 1 else None
    if curve.num_seeds > 1:
        axes.fill_between(curve.steps, mean - spread, mean + spread, color=color, alpha=0.16, linewidth=0)
        if curve.num_seeds <= MAX_SEEDS_DRAWN:
            axes.plot(curve.steps, curve.values, color=color, alpha=0.28, linewidth=0.7, zorder=2)
    return axes.plot(curve.steps, mean, color=color, linestyle=line_style, marker=marker, zorder=3)[0]


def label_axes(axes: Axes, label: str, last_step: int) -> None:
    """Label the axes of a plot over environment steps, and format their ticks."""
    axes.set_xlabel("environment steps per seed")
    axes.set_ylabel(label)
    axes.set_xlim(0, last_step * 1.01 if last_step else 1)
    axes.margins(y=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def explanation_of(curves: Sequence[Curve]) -> str:
    """One line that explains the lines and bands."""
    fewest, most = min(c.num_seeds for c in curves), max(c.num_seeds for c in curves)
    if most == 1:
        return "one seed"
    parts = [
        f"mean over {most if fewest == most else f'{fewest} to {most}'} seeds",
        "band: ± one standard deviation",
    ]
    if any(1 < curve.num_seeds <= MAX_SEEDS_DRAWN for curve in curves):
        parts.append("thin lines: single seeds")
    return "  ·  ".join(parts)
