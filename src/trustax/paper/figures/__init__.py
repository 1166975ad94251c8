"""Draws the paper's figures and a few of our own from outcomes and traces, as PNG files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.experiments import PROTOCOLS
from trustax.paper.figures.ablation import draw_ablation, draw_full_ablation
from trustax.paper.figures.curves import draw_curves, draw_minigrid
from trustax.paper.figures.details import draw_alpha, draw_slots
from trustax.paper.figures.iteration_detail import draw_iteration_details
from trustax.paper.figures.overview import draw_overview
from trustax.paper.figures.profiles import draw_profiles
from trustax.paper.figures.quality import draw_qualities
from trustax.paper.figures.timeline import draw_timelines
from trustax.paper.results import Outcome, read
from trustax.paper.trace.trace import Trace, read_traces
from trustax.plotting.curves import STYLE, save

Figures = dict[str, Figure]
"""The pictures of one figure by their suffix, which is "" for a single one; empty if there is nothing to draw."""

FROM_OUTCOMES: dict[str, Callable[[Sequence[Outcome], str], Figures]] = {
    "figure-1c": draw_slots,
    "alpha": draw_alpha,
    "minigrid": draw_minigrid,
    "ablation": draw_ablation,
    "ablation-full": draw_full_ablation,
    "overview": draw_overview,
    "curves": draw_curves,
    "profiles": draw_profiles,
}
FROM_TRACES: dict[str, Callable[[Sequence[Trace]], Figures]] = {
    "figure-1a": draw_timelines,
    "figure-1b": draw_qualities,
    "within": draw_iteration_details,
}
FIGURES = [*FROM_TRACES, *FROM_OUTCOMES]
TITLES = {
    "figure-1a": "Figure 1a: policies remembered and attended to",
    "figure-1b": "Figure 1b: the virtual policy’s return",
    "figure-1c": "Figure 1c: the slot that attention prefers",
    "within": "Within an iteration of MCPO",
    "alpha": "The weight α over training",
    "minigrid": "Navigation",
    "ablation": "Ablation",
    "ablation-full": "Ablation on shorter tasks",
    "overview": "MCPO beside PPO and the best other method",
    "curves": "Learning curves",
    "profiles": "Performance profiles",
}


def save_figure(name: str, results: Path, protocol: str, folder: Path) -> list[Path]:
    """Draw a figure from the files under `results`; returns the saved paths, none if there is nothing to draw."""
    if name not in FIGURES:
        raise TrustaxError(f"there is no figure {name!r}; {similar_or_all(name, FIGURES)}")
    if protocol not in PROTOCOLS:
        raise TrustaxError(f"there is no protocol {protocol!r}; {similar_or_all(protocol, PROTOCOLS)}")
    with matplotlib.rc_context(STYLE):
        if name in FROM_TRACES:
            drawn = FROM_TRACES[name](read_traces(results, protocol))
        else:
            drawn = FROM_OUTCOMES[name](read(results / protocol), protocol)
        return [
            _saved(figure, folder / f"{'-'.join(filter(None, [name, part, protocol]))}.png")
            for part, figure in drawn.items()
        ]


def _saved(figure: Figure, path: Path) -> Path:
    save(figure, path)
    return path
