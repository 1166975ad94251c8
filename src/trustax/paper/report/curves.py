"""The report's data from outcomes, as JSON values: learning curves and their provenance."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trustax.cli.formatting import short_count, short_duration
from trustax.paper.figures.families import family_and_setting
from trustax.paper.methods import METHODS, VARIANTS
from trustax.paper.results import Outcome, read
from trustax.paper.tables.targets import Target
from trustax.paper.tasks import TASKS, task_of
from trustax.run import settings_of

POINTS = 200
"""The maximum number of points of a curve, including the last."""
DIGITS = 4
EXPERIMENT_FIELDS = ("env_id", "total_timesteps", "num_seeds", "seed", "bootstrap_truncation")
"""Fields of a run that do not depend on the method."""


def outcomes_in(results: Path, protocols: Iterable[str]) -> dict[str, list[Outcome]]:
    """The outcomes of each protocol, sorted by task; MCPO comes first, then the paper's order."""
    order = {name: place for place, name in enumerate([*_mcpo_first(METHODS), *VARIANTS])}
    return {
        protocol: sorted(
            read(results / protocol),
            key=lambda outcome: (_place(outcome), order.get(outcome.method, len(order)), outcome.method),
        )
        for protocol in protocols
    }


def curve_data(outcome: Outcome, protocol: str, label: str, target: Target | None) -> dict[str, Any]:
    """The curve of every seed, and the paper's final value."""
    kept = evenly_spaced(len(outcome.steps), POINTS)
    return {
        "task": task_name(outcome),
        "protocol": protocol,
        "label": label,
        "family": family_and_setting(outcome.method)[0],
        "steps": [outcome.steps[index] for index in kept],
        "values": [rounded(row[kept]) for row in outcome.returns],
        "successes": None if outcome.successes is None else [rounded(row[kept]) for row in outcome.successes],
        "paper": None if target is None else {"mean": target.mean, "deviation": target.std},
        "paper_steps": task.total_timesteps if (task := task_of(outcome.run.env_id)) else 0,
    }


def outcome_labels(outcomes: Sequence[Outcome]) -> list[str]:
    """A label for each outcome: its method, plus changed settings and the number of steps where labels would clash."""
    labels = [", ".join([outcome.method, *differences(outcome)]) for outcome in outcomes]
    places = [(task_name(outcome), label) for outcome, label in zip(outcomes, labels, strict=True)]
    return [
        label if places.count(place) == 1 else f"{label}, {short_count(outcome.run.total_timesteps)} steps"
        for outcome, label, place in zip(outcomes, labels, places, strict=True)
    ]


def provenance_data(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Where the numbers come from, as pairs of name and value."""
    if not outcomes:
        return [("results", "none yet")]
    steps = sum(len(outcome.returns) * outcome.steps[-1] for outcome in outcomes)
    packages = dict.fromkeys(name for outcome in outcomes for name in outcome.versions)
    return [
        ("methods on tasks", str(len(outcomes))),
        ("training runs", str(sum(len(outcome.returns) for outcome in outcomes))),
        ("environment steps", short_count(steps)),
        ("computing time", short_duration(sum(outcome.seconds for outcome in outcomes))),
        *((name, ", ".join(sorted({o.versions[name] for o in outcomes if name in o.versions}))) for name in packages),
        *(
            ("hardware", f"{kind} ({count} of {len(outcomes)})")
            for kind, count in Counter(o.hardware for o in outcomes).most_common()
        ),
    ]


def differences(outcome: Outcome) -> list[str]:
    """The settings in which an outcome differs from its method on the paper's task."""
    task, known = task_of(outcome.run.env_id), METHODS | VARIANTS
    if task is None or outcome.method not in known:
        return []
    usual, own = (settings_of(run, EXPERIMENT_FIELDS) for run in (task.run(known[outcome.method]), outcome.run))
    return [f"{name}={value}" for name, value in own.items() if usual.get(name) != value]


def task_name(outcome: Outcome) -> str:
    """The name of the paper's task, or the environment id if it is not one."""
    found = task_of(outcome.run.env_id)
    return next((name for name, task in TASKS.items() if task is found), outcome.run.env_id)


def rounded(values: np.ndarray | Sequence[float]) -> list[float | int | None]:
    """Round to a few significant digits; non-finite values become None.

    >>> rounded([1234.5678, float("nan"), -0.000123456])
    [1235, None, -0.0001235]
    """
    return [_shortest(float(f"{value:.{DIGITS}g}")) if math.isfinite(value) else None for value in values]


def evenly_spaced(count: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `count` points, evenly spaced, including the first and the last.

    >>> evenly_spaced(7, 3).tolist(), evenly_spaced(2, 3).tolist()
    ([0, 3, 6], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _shortest(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _mcpo_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: not name.startswith("MCPO"))


def _place(outcome: Outcome) -> tuple[int, str]:
    name = task_name(outcome)
    return (list(TASKS).index(name) if name in TASKS else len(TASKS), name)
