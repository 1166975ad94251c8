"""The outcome of a finished run: one small JSON file in `results/`, from which tables and figures are made.

It holds the full definition of the run, the learning curve of every seed, the hardware and the duration. The seeds of
one table cell may be spread over several files, which then differ in nothing else.
"""

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, SPEED, STEP, SUCCESS, Record
from trustax.run import ADDED_LATER, Run, from_json, to_json
from trustax.storage.atomic import jsonable, write_atomic
from trustax.storage.reading import UNREADABLE, read_json

DETAILS = "mcpo/"
"""Metrics with this prefix are stored as mean and standard deviation over seeds."""
POINTS = 200
"""Maximum number of points of a stored curve, including the last; each seed's best point is stored in addition."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run, or of several that differ only in their seeds."""

    run: Run
    """for an outcome from one file, its seeds are the rows of the arrays below"""
    method: str
    """the name in the tables"""
    steps: list[int]
    returns: np.ndarray
    """mean raw return of the last 100 episodes, `seed point`; NaN before the first episode"""
    successes: np.ndarray | None
    """success rate of the last 100 episodes, likewise"""
    details: dict[str, np.ndarray]
    """metrics of MCPO by name: mean and standard deviation over seeds, `2 point`"""
    seconds: float
    steps_per_second: float
    """of all seeds together, median over iterations"""
    versions: dict[str, str]
    hardware: str

    @property
    def is_complete(self) -> bool:
        """Whether the run reached its end."""
        return self.steps[-1] >= self.run.num_iterations * self.run.batch_size

    @property
    def final(self) -> np.ndarray:
        """The last value of each seed."""
        return self.returns[:, -1]

    @property
    def best(self) -> np.ndarray:
        """The highest value of each seed; NaN if no episode has ended."""
        return np.fmax.reduce(self.returns, axis=1)


def outcome_of(run: Run, method: str, records: Sequence[Record], seconds: float) -> Outcome:
    """Make the outcome of a finished run from its records."""
    kept = [records[number] for number in _kept_indices(records)]
    return Outcome(
        run=run,
        method=method,
        steps=[record[STEP] for record in kept],
        returns=_curve(kept, RETURN),
        successes=_curve(kept, SUCCESS) if SUCCESS in records[-1] else None,
        details={name: _spread(kept, name) for name in records[-1] if name.startswith(DETAILS)},
        seconds=seconds,
        steps_per_second=float(np.median([record[SPEED] for record in records])),
        versions={name: version_of(name) for name in ("trustax", "jax", "envpool", "gymnasium")}
        | {"python": platform.python_version()},
        hardware=hardware(),
    )


def _kept_indices(records: Sequence[Record]) -> list[int]:
    """The indices of the records that a stored curve keeps."""
    last = len(records) - 1
    step = max(1, ceil(last / (POINTS - 1)))
    best = [int(np.nanargmax(row)) for row in _curve(records, RETURN) if np.isfinite(row).any()]
    return sorted({*range(0, last, step), last, *best})


def digest(run: Run) -> str:
    """An eight-digit hash of a run's definition without its seeds, the same in every process."""
    return hashlib.sha256(_definition(run).encode()).hexdigest()[:8]


def same_except_length(one: Run, other: Run) -> bool:
    """Whether two runs differ only in seeds and total steps."""
    return _definition(one) == _definition(other, total_timesteps=one.total_timesteps)


def _definition(run: Run, **changes: Any) -> str:
    """A run without its seeds as text, with some fields changed.

    Fields of later versions are included only if they differ from the behavior of earlier versions.
    """
    definition = to_json(run) | {"seed": 0, "num_seeds": 1} | changes
    algorithm = definition["algorithm"]
    if (schedule := algorithm.get("learning_rate_schedule")) in ("linear", "constant"):
        algorithm["decay_learning_rate"] = schedule == "linear"  # its name in earlier versions
        del algorithm["learning_rate_schedule"]
    for settings in (definition, algorithm):
        for name, value in ADDED_LATER.items():
            if name in settings and settings[name] == jsonable(value):
                del settings[name]
    return json.dumps(definition, sort_keys=True)


def write(outcome: Outcome, folder: Path) -> Path:
    """Write an outcome into a folder, replacing an earlier outcome of the same run."""
    run = outcome.run
    seeds = f"{run.seed}-{run.seed + run.num_seeds - 1}"
    path = folder / f"{to_slug(run.env_id)}__{to_slug(outcome.method)}__{digest(run)}__{seeds}.json"
    content = {
        "method": outcome.method,
        "final": _rounded(outcome.final),
        "best": _rounded(outcome.best),
        "seconds": round(outcome.seconds, 1),
        "steps_per_second": round(outcome.steps_per_second, 1),
        "versions": outcome.versions,
        "hardware": outcome.hardware,
        "run": to_json(run),
        "steps": outcome.steps,
        "returns": [_rounded(row) for row in outcome.returns],
        "successes": None if outcome.successes is None else [_rounded(row) for row in outcome.successes],
        "details": {name: [_short(row) for row in rows] for name, rows in outcome.details.items()},
    }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in content.items())
    write_atomic(path, f"{{\n{lines}\n}}\n")
    return path


def read(folder: Path) -> list[Outcome]:
    """Read every outcome in a folder; outcomes that differ only in their seeds are merged.

    Each seed counts once, and outcomes of runs that stopped before their end only if none of the others is complete.
    """
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for path in sorted(folder.glob("*.json")):
        outcome = read_file(path)
        cells.setdefault((outcome.method, digest(outcome.run)), []).append(outcome)
    return [_merged(cell) for cell in cells.values()]


def find(outcomes: Iterable[Outcome], method: str, run: Run) -> Outcome | None:
    """Find the outcome of a run; among several that differ only in total steps, the longest."""
    found = [outcome for outcome in outcomes if outcome.method == method and same_except_length(outcome.run, run)]
    return max(found, key=lambda outcome: outcome.run.total_timesteps, default=None)


def read_file(path: Path) -> Outcome:
    """Read one outcome file."""
    try:
        content = read_json(path)
        run, steps, returns = from_json(content["run"]), content["steps"], _array(content["returns"])
        if returns.shape != (run.num_seeds, len(steps)):
            raise ValueError(f"returns of shape {returns.shape} for {run.num_seeds} seeds and {len(steps)} points")
        return Outcome(
            run=run,
            method=str(content["method"]),
            steps=[int(step) for step in steps],
            returns=returns,
            successes=None if content["successes"] is None else _array(content["successes"]),
            details={name: _array(rows) for name, rows in content.get("details", {}).items()},
            seconds=float(content["seconds"]),
            steps_per_second=float(content.get("steps_per_second", float("nan"))),
            versions=dict(content["versions"]),
            hardware=str(content["hardware"]),
        )
    except UNREADABLE as error:
        raise TrustaxError(f"{path} is not a result file of Trustax: {error}") from error


def _merged(cell: list[Outcome]) -> Outcome:
    cell = _without_repeated_seeds([outcome for outcome in cell if outcome.is_complete] or cell)
    if len(cell) == 1:
        return cell[0]
    cell = _at_the_same_steps(cell)
    successes = [outcome.successes for outcome in cell if outcome.successes is not None]
    return replace(
        cell[0],
        returns=np.concatenate([outcome.returns for outcome in cell]),
        successes=np.concatenate(successes) if successes else None,
        details={name: _merged_spread(cell, name) for name in cell[0].details},
        seconds=sum(outcome.seconds for outcome in cell),
        steps_per_second=float(np.mean([outcome.steps_per_second for outcome in cell])),
    )


def _without_repeated_seeds(cell: list[Outcome]) -> list[Outcome]:
    """Each seed from the first outcome that has it. The details, which are means over seeds, stay as they are."""
    distinct, seen = list[Outcome](), set[int]()
    for outcome in cell:
        rows = [row for row, seed in enumerate(outcome.run.seeds) if seed not in seen]
        seen.update(outcome.run.seeds)
        if rows:
            successes = None if outcome.successes is None else outcome.successes[rows]
            distinct.append(replace(outcome, returns=outcome.returns[rows], successes=successes))
    return distinct


def _at_the_same_steps(cell: list[Outcome]) -> list[Outcome]:
    """Outcomes with a point at every step that one of them has, up to the end of the shortest.

    A stored curve is thinned, but keeps the best point of each seed, so files of a cell may have different steps.
    Points that a file lacks are interpolated.
    """
    if all(outcome.steps == cell[0].steps for outcome in cell):
        return cell
    end = min(outcome.steps[-1] for outcome in cell)
    steps = sorted({step for outcome in cell for step in outcome.steps if step <= end})

    def resampled(outcome: Outcome, rows: np.ndarray) -> np.ndarray:
        return np.stack([np.interp(steps, outcome.steps, row) for row in rows])

    return [
        replace(
            outcome,
            steps=steps,
            returns=resampled(outcome, outcome.returns),
            successes=None if outcome.successes is None else resampled(outcome, outcome.successes),
            details={name: resampled(outcome, rows) for name, rows in outcome.details.items()},
        )
        for outcome in cell
    ]


def _merged_spread(cell: list[Outcome], name: str) -> np.ndarray:
    """Mean and standard deviation over all seeds, computed from those of each file."""
    counts = [len(outcome.returns) for outcome in cell]
    means, deviations = np.moveaxis(np.stack([outcome.details[name] for outcome in cell]), 1, 0)
    mean = np.average(means, axis=0, weights=counts)
    return np.stack([mean, np.sqrt(np.average(deviations**2 + (means - mean) ** 2, axis=0, weights=counts))])


def to_slug(name: str) -> str:
    """Convert a name for use in file names.

    >>> to_slug("MCPO N=10 literal")
    'MCPO-N-10-literal'
    """
    return "-".join(re.findall(r"[A-Za-z0-9.]+", name))


def _curve(records: Iterable[Record], metric: str) -> np.ndarray:
    return _array([record[metric] for record in records]).T


def _spread(records: Iterable[Record], metric: str) -> np.ndarray:
    values = _curve(records, metric)
    return np.stack([values.mean(axis=0), values.std(axis=0)])


def _array(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype=float)  # None, where there was no value yet, becomes NaN


def _rounded(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 3) for value in values]


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def version_of(package: str) -> str:
    """The installed version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def hardware() -> str:
    """A short description of the devices that JAX uses."""
    device = jax.devices()[0]
    kind = "CPU" if device.platform == "cpu" else device.device_kind
    return f"{kind}, {len(jax.devices())} device(s), {platform.machine()}"
