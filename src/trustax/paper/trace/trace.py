"""What a look into one run of MCPO leaves in `results/traces/`: the numbers behind figures 1a and 1b.

Of the first seed, every update of some iterations: which policies were remembered and which was attended to, β, α and
the distances. Of all seeds, what the virtual policy ψ and the old policy earn in test episodes now and then.
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
from trustax.paper.results import hardware, plain_name, version_of
from trustax.paper.trace.updates import SERIES, TracedIteration, play, traced_iterations, updates_of
from trustax.run import Run, from_json, to_json
from trustax.storage.atomic import write_atomic

FOLDER = "traces"
WINDOW = (5160, 7070)
"""The updates that the paper's figure 1a shows."""
SHORT_WINDOW = 4
"""Where a run is shorter than that, so many iterations at its end stand in for them."""
EXACT_UPDATES = 5_500
"""About so many updates are kept one by one: the window's, and whole iterations spread over the run."""
POINTS = 200
"""At most so many iterations are kept as means."""
CHECKPOINTS = 12
EPISODES = 10
DIGITS = 4


@dataclass(frozen=True)
class Segment:
    """Every update of an iteration.

    Updates count from 1, and a policy goes by the update that made it; the first policy of a run is number 0.
    """

    iteration: int
    old: int
    """number of the old policy"""
    written: np.ndarray
    """numbers of the policies that were remembered"""
    attended: np.ndarray
    """number of the policy with the highest attention, for every update"""
    series: dict[str, np.ndarray]
    """for every update, by the metric's name: rank of that policy (0 the newest), β, α, distances"""

    @property
    def updates(self) -> np.ndarray:
        return self.old + 1 + np.arange(len(self.attended))


class Checkpoint(NamedTuple):
    """Returns of test episodes, `seed episode`."""

    steps: int
    old: np.ndarray
    """of the policy that collected an iteration's data"""
    virtual: np.ndarray
    """of ψ at that iteration's end"""


@dataclass(frozen=True)
class Trace:
    """A run as the figures need it."""

    task: str
    method: str
    protocol: str
    run: Run
    segments: list[Segment]
    means: dict[str, np.ndarray]
    """of the iterations `iteration`, by the metric's name"""
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
    """Train MCPO on a task, look into it, and leave the trace under `results`, in the place of an earlier one."""
    traced = Experiment(title="trace", methods=[method], tasks=[task], run_settings={"seed": seed})
    ((_, _, run),) = traced.cells(protocol, num_seeds=num_seeds, total_timesteps=total_timesteps)
    if not isinstance(run.algorithm, MCPO):
        raise TrustaxError(f"only MCPO can be traced, for it alone remembers policies; {method!r} is none")
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
    path = results / FOLDER / f"{plain_name(task)}__{plain_name(method)}__{protocol}.json"
    write_atomic(path, _text(_to_json(trace)) + "\n")
    return path


def read_traces(results: Path, protocol: str) -> list[Trace]:
    """Every trace of a protocol."""
    return [read_trace(path) for path in sorted((results / FOLDER).glob(f"*__{protocol}.json"))]


def read_trace(path: Path) -> Trace:
    """The trace that `write_trace` left."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, TrustaxError) as error:
        raise TrustaxError(f"{path} is no trace of Trustax: {error}; write it anew") from error


def _collect(run: Run[Any], quiet: bool) -> tuple[list[Segment], dict[str, np.ndarray], list[Checkpoint]]:
    exact = exact_iterations(run.num_iterations, updates_of(run.algorithm))
    played = _spread(run.num_iterations, CHECKPOINTS)
    kept = _spread(run.num_iterations, POINTS)
    segments, checkpoints = [], []
    means: dict[str, list[float]] = {name: [] for name in ("iteration", *SERIES)}
    for look in traced_iterations(run, quiet):
        if look.number in exact:
            segments.append(_segment(look))
        if look.number in kept:
            means["iteration"].append(look.number)
            for name in SERIES:
                means[name].append(float(look.series[name][0].mean()))
        if look.number in played:
            steps = (look.number + 1) * run.batch_size
            policies = (look.old, look.state.learner.virtual)
            checkpoints.append(Checkpoint(steps, *(play(run, look, policy, EPISODES) for policy in policies)))
    return segments, {name: np.array(values) for name, values in means.items()}, checkpoints


def exact_iterations(num_iterations: int, num_updates: int) -> set[int]:
    """The iterations of which every update is kept.

    >>> sorted(exact_iterations(num_iterations=12, num_updates=640))
    [0, 3, 7, 8, 9, 10, 11]
    """
    first, last = (update // num_updates for update in WINDOW)
    if last >= num_iterations:
        first, last = max(0, num_iterations - SHORT_WINDOW), num_iterations - 1
    window = set(range(first, last + 1))
    return window | _spread(num_iterations, max(1, EXACT_UPDATES // num_updates - len(window)))


def _spread(num_iterations: int, count: int) -> set[int]:
    """So many iterations from the first to the last, evenly; all if they are fewer."""
    return set(np.linspace(0, num_iterations - 1, min(count, num_iterations)).astype(int).tolist())


def _segment(look: TracedIteration) -> Segment:
    series = {name: values[0] for name, values in look.series.items()}
    old = look.number * len(series["written"])
    before = old + np.arange(len(series["written"]))  # updates that were made before each
    return Segment(
        iteration=look.number,
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
    """Four digits, whole numbers without a point, and null for what is no number."""
    if values.ndim > 1:
        return [_rounded(row) for row in values]
    return [_short(float(value)) for value in values]


def _short(value: float) -> float | int | None:
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.{DIGITS}g}")


def _text(value: Any) -> str:
    """JSON with a line for each list of numbers, so that people can find their way in it."""
    if isinstance(value, dict) and any(isinstance(part, list) for part in value.values()):
        return "{\n" + ",\n".join(f"{json.dumps(name)}: {_text(part)}" for name, part in value.items()) + "\n}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return "[\n" + ",\n".join(map(_text, value)) + "\n]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
