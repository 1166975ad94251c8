"""The report's data on the internals of MCPO: over a whole run from its outcome, update by update from a trace."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trustax.paper.report.curves import evenly_spaced, rounded, task_name
from trustax.paper.results import DETAILS, Outcome
from trustax.paper.trace.trace import Segment, Trace
from trustax.paper.trace.updates import updates_per_iteration

POINTS = 100
"""The maximum number of points of a series."""
SHOWN = (
    "alpha",
    "beta",
    "kl_old_new",
    "kl_old_virtual",
    "attended_rank",
    "attended_age",
    "attention_entropy",
    "writes",
    "memory_filled",
)
STEPS, UPDATES = "environment steps per seed", "updates"


def outcome_internals(outcome: Outcome, protocol: str, label: str) -> dict[str, Any]:
    """MCPO's metrics over a run: mean and standard deviation over seeds."""
    kept = evenly_spaced(len(outcome.steps), POINTS)
    details = {name.removeprefix(DETAILS): rows[:, kept] for name, rows in outcome.details.items()}
    if "written" in details:  # the fraction of updates that write to memory
        details["writes"] = details["written"] * updates_per_iteration(outcome.run.algorithm)
    return {
        "label": f"{task_name(outcome)} · {label} · {protocol}",
        "words": "Mean over the updates of an iteration and over the seeds; band: ± one standard deviation.",
        "unit": STEPS,
        "x": [outcome.steps[index] for index in kept],
        "series": {name: [rounded(row) for row in details[name]] for name in SHOWN if name in details},
    }


def trace_internals(trace: Trace) -> Iterator[dict[str, Any]]:
    """A traced seed over its whole run, then each part of the run with recorded updates."""
    label = f"{trace.task} · {trace.method} · {trace.protocol} · trace of seed {trace.run.seed}"
    kept = evenly_spaced(len(trace.means["iteration"]), POINTS)
    means = {name: values[kept] for name, values in trace.means.items()}
    means["writes"] = means["written"] * updates_per_iteration(trace.run.algorithm)
    yield {
        "label": label,
        "words": "Mean over the updates of an iteration, one seed.",
        "unit": STEPS,
        "x": [int(number + 1) * trace.run.batch_size for number in means["iteration"]],
        "series": _single(means),
    }
    for part in _parts(trace.segments):
        updates = np.concatenate([segment.updates for segment in part])
        yield {
            "label": f"{label}, updates {updates[0]} to {updates[-1]}",
            "words": "Every update of one seed. The count of writes restarts at 0 whenever θ_old changes.",
            "unit": UPDATES,
            "x": updates.tolist(),
            "series": _single(
                {
                    name: np.concatenate([_update_series(segment)[name] for segment in part])
                    for name in _update_series(part[0])
                }
            ),
        }


def _update_series(segment: Segment) -> dict[str, np.ndarray]:
    return segment.series | {
        "attended_age": segment.updates - 1 - segment.attended,
        "writes": np.cumsum(np.isin(segment.updates, segment.written)),
    }


def _parts(segments: list[Segment]) -> list[list[Segment]]:
    """Group consecutive iterations."""
    parts: list[list[Segment]] = []
    for segment in segments:
        if parts and parts[-1][-1].iteration + 1 == segment.iteration:
            parts[-1].append(segment)
        else:
            parts.append([segment])
    return parts


def _single(series: dict[str, np.ndarray]) -> dict[str, Any]:
    """Format series that have no standard deviation."""
    return {name: [rounded(series[name]), None] for name in SHOWN if name in series}
