"""The trace of one MCPO run, stored in `results/traces/`: the numbers behind figures 1a and 1b.

For the first seed it has every update of some iterations: the policies stored in memory, the policy with the highest
attention, β, α and the distances. For all seeds it has test returns of the virtual policy ψ and of the old policy.
"""

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trustax.algorithms.mcpo.mcpo import MCPO
from trustax.errors import TrustaxError
from trustax.paper.experiments import Experiment
from trustax.paper.results import hardware, to_slug, version_of
from trustax.paper.trace.updates import SERIES, TracedIteration, play_episodes, traced_iterations, updates_per_iteration
from trustax.run import Run, from_json, to_json
from trustax.storage.atomic import write_atomic
from trustax.storage.reading import UNREADABLE, read_json

FOLDER = "traces"
WINDOW = (5160, 7070)
"""The range of updates in the paper's figure 1a."""
SHORT_WINDOW = 4
"""The number of final iterations to record instead if the run is shorter than the window."""
EXACT_UPDATES = 5_500
"""The approximate number of recorded updates: the window, plus whole iterations spread over the run."""
POINTS = 200
"""The maximum number of iterations that are recorded as means."""
CHECKPOINTS = 12
EPISODES = 10
DIGITS = 4


@dataclass(frozen=True)
class Segment:
    """Every update of one iteration.

    Updates count from 1. A policy has the number of the update that created it; the initial policy is number 0.
    """

    iteration: int
    old: int
    """number of the old policy"""
    written: np.ndarray
    """numbers of the policies stored in memory"""
    attended: np.ndarray
    """number of the policy with the highest attention at every update"""
    series: dict[str, np.ndarray]
    """metrics at every update by name: rank of the attended policy (0 is the newest), β, α, distances"""

    @property
    def updates(self) -> np.ndarray:
        return self.old + 1 + np.arange(len(self.attended))


class Checkpoint(NamedTuple):
    """Returns of test episodes, `seed episode`."""

    steps: int
    old: np.ndarray
    """of the policy that collected the data of an iteration"""
    virtual: np.ndarray
    """of ψ at the end of that iteration"""


@dataclass(frozen=True)
class Trace:
    """The recorded data of a run."""

    task: str
    method: str
    protocol: str
    run: Run
    segments: list[Segment]
    means: dict[str, np.ndarray]
    """means over the updates of each iteration in `means["iteration"]`, by metric name"""
    checkpoints: list[Checkpoint]
    seconds: float
    versions: dict[str, str]
    hardware: str


def write_trace(
    results: Path,
    task: str = "unlock",
    method: str = "MCPO N=10",
    protocol: str = "paper",
    seed: int = 0,
    total_timesteps: int | None = None,
    num_seeds: int = 5,
    quiet: bool = False,
) -> Path:
    """Train MCPO on a task and write its trace under `results`, replacing an earlier one."""
    traced = Experiment(title="trace", methods=[method], tasks=[task], run_settings={"seed": seed})
    ((_, _, run),) = traced.cells(protocol, num_seeds=num_seeds, total_timesteps=total_timesteps)
    if not isinstance(run.algorithm, MCPO):
        raise TrustaxError(
            f"only MCPO can be traced, because only MCPO stores policies; {method!r} is not a variant of MCPO"
        )
    began = time.perf_counter()
    segments, means, checkpoints = _collect(run, quiet)
    trace = Trace(
        task=task,
        method=method,
        protocol=protocol,
        run=run,
        segments=segments,
        means=means,
        checkpoints=checkpoints,
        seconds=time.perf_counter() - began,
        versions={name: version_of(name) for name in ("trustax", "jax")} | {"python": platform.python_version()},
        hardware=hardware(),
    )
    path = results / FOLDER / f"{to_slug(task)}__{to_slug(method)}__{protocol}.json"
    write_atomic(path, _text(_to_json(trace)) + "\n")
    return path


def read_traces(results: Path, protocol: str) -> list[Trace]:
    """Read every trace of a protocol."""
    return [read_trace(path) for path in sorted((results / FOLDER).glob(f"*__{protocol}.json"))]


def read_trace(path: Path) -> Trace:
    """Read one trace."""
    try:
        content = read_json(path)
        return Trace(
            **{name: content[name] for name in ("task", "method", "protocol", "seconds", "versions", "hardware")},
            run=from_json(content["run"]),
            segments=[_segment_of(values) for values in content["stretches"]],
            means={name: np.array(values, float) for name, values in content["means"].items()},
            checkpoints=[
                Checkpoint(values["steps"], np.array(values["old"], float), np.array(values["virtual"], float))
                for values in content["checkpoints"]
            ],
        )
    except UNREADABLE as error:
        raise TrustaxError(f"{path} is not a trace of Trustax: {error}; delete it and trace the run again") from error


def _collect(run: Run[Any], quiet: bool) -> tuple[list[Segment], dict[str, np.ndarray], list[Checkpoint]]:
    exact = exact_iterations(run.num_iterations, updates_per_iteration(run.algorithm))
    evaluated = _spread(run.num_iterations, CHECKPOINTS)
    averaged = _spread(run.num_iterations, POINTS)
    segments, checkpoints = [], []
    means: dict[str, list[float]] = {name: [] for name in ("iteration", *SERIES)}
    for iteration in traced_iterations(run, quiet):
        if iteration.number in exact:
            segments.append(_segment(iteration))
        if iteration.number in averaged:
            means["iteration"].append(iteration.number)
            for name in SERIES:
                means[name].append(float(iteration.series[name][0].mean()))
        if iteration.number in evaluated:
            steps = (iteration.number + 1) * run.batch_size
            policies = (iteration.old, iteration.state.learner.virtual)
            returns = (play_episodes(run, iteration, policy, EPISODES) for policy in policies)
            checkpoints.append(Checkpoint(steps, *returns))
    return segments, {name: np.array(values) for name, values in means.items()}, checkpoints


def exact_iterations(num_iterations: int, num_updates: int) -> set[int]:
    """The iterations whose updates are all recorded.

    >>> sorted(exact_iterations(num_iterations=12, num_updates=640))
    [0, 3, 7, 8, 9, 10, 11]
    """
    first, last = (update // num_updates for update in WINDOW)
    if last >= num_iterations:
        first, last = max(0, num_iterations - SHORT_WINDOW), num_iterations - 1
    window = set(range(first, last + 1))
    return window | _spread(num_iterations, max(1, EXACT_UPDATES // num_updates - len(window)))


def _spread(num_iterations: int, count: int) -> set[int]:
    """At most `count` iterations, evenly spaced from the first to the last."""
    return set(np.linspace(0, num_iterations - 1, min(count, num_iterations)).astype(int).tolist())


def _segment(iteration: TracedIteration) -> Segment:
    series = {name: values[0] for name, values in iteration.series.items()}
    old = iteration.number * len(series["written"])
    before = old + np.arange(len(series["written"]))  # number of updates before each update
    return Segment(
        iteration=iteration.number,
        old=old,
        written=before[series.pop("written") > 0] + 1,
        attended=before - series.pop("attended_age").astype(int),
        series=series,
    )


def _to_json(trace: Trace) -> dict[str, Any]:
    return {
        "task": trace.task,
        "method": trace.method,
        "protocol": trace.protocol,
        "seconds": round(trace.seconds, 1),
        "versions": trace.versions,
        "hardware": trace.hardware,
        "run": to_json(trace.run),
        "checkpoints": [
            {"steps": steps, "old": _rounded(old), "virtual": _rounded(virtual)}
            for steps, old, virtual in trace.checkpoints
        ],
        "means": {name: _rounded(values) for name, values in trace.means.items()},
        "stretches": [
            {
                "iteration": segment.iteration,
                "old": segment.old,
                "written": segment.written.tolist(),
                "attended": segment.attended.tolist(),
            }
            | {name: _rounded(values) for name, values in segment.series.items()}
            for segment in trace.segments
        ],
    }


def _segment_of(values: dict[str, Any]) -> Segment:
    known = ("iteration", "old", "written", "attended")
    iteration, old, written, attended = (values[name] for name in known)
    series = {name: np.array(numbers, float) for name, numbers in values.items() if name not in known}
    return Segment(iteration, old, np.array(written, int), np.array(attended, int), series)


def _rounded(values: np.ndarray) -> Any:
    """Round to four significant digits; integers have no decimal point, and non-finite values become None."""
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [_short(float(value)) for value in values]


def _short(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.{DIGITS}g}")


def _text(value: Any) -> str:
    """JSON with one line per list of numbers, for readability."""
    if isinstance(value, dict) and any(isinstance(part, list) for part in value.values()):
        return "{\n" + ",\n".join(f"{json.dumps(name)}: {_text(part)}" for name, part in value.items()) + "\n}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return "[\n" + ",\n".join(map(_text, value)) + "\n]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
