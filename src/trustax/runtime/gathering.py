"""The results of an iteration from all processes, merged into those of the run."""

from typing import Any, NamedTuple

from trustax.runtime.train_step import Seconds, StepResult


class Gathered(NamedTuple):
    """The result of an iteration for all learners."""

    metrics: dict[str, Any]
    fault: str | None
    causes: list[int]
    seconds: Seconds
    """those of the slowest process"""
    save: bool
    """whether it is time to save, by the clock of process 0"""
    stop: bool
    """whether a process was asked to stop"""


def part_of(
    result: StepResult, restarts: int | None, stop: bool, save: bool, has_learners: bool = True
) -> dict[str, Any]:
    """The part of one process, as JSON values; with `has_learners` False, another process reports its learners."""
    return {
        "metrics": {name: value.tolist() if has_learners else [] for name, value in result.metrics.items()},
        "restarts": restarts,
        "fault": result.fault,
        "causes": result.causes if has_learners else [],
        "seconds": list(result.seconds),
        "stop": stop,
        "save": save,
    }


def merged(parts: list[dict[str, Any]]) -> Gathered:
    """The parts of all processes as one result."""
    first = parts[0]
    restarts = {} if first["restarts"] is None else {"env/restarts": sum(part["restarts"] for part in parts)}
    metrics = {name: [value for part in parts for value in part["metrics"][name]] for name in first["metrics"]}
    return Gathered(
        restarts | metrics,
        next((part["fault"] for part in parts if part["fault"] is not None), None),
        [cause for part in parts for cause in part["causes"]],
        max((Seconds(*part["seconds"]) for part in parts), key=lambda seconds: seconds.collect + seconds.learn),
        first["save"],
        any(part["stop"] for part in parts),
    )
