"""What a run decides after each iteration: whether its numbers are sound, whether to save, and whether to stop.

The processes of a distributed run decide together: they gather their parts of an iteration, and all of them see the
same whole.
"""

import math
from typing import Any, NamedTuple

from trustax.ops.metrics import RESTARTS
from trustax.runtime.distributed import Group
from trustax.runtime.interrupt import InterruptGuard
from trustax.runtime.train_step import Seconds, StepResult


class IterationOutcome(NamedTuple):
    """The outcome of an iteration for all learners, and what follows from it."""

    metrics: dict[str, Any]
    fault: str | None
    """what is wrong with an observation or a reward"""
    causes: list[int]
    """why the update of each learner was skipped, as in `runtime/divergence.py`"""
    seconds: Seconds
    """those of the slowest process"""
    save: bool
    """whether it is time to save, by the clock of process 0"""
    stop: bool
    """whether a process was asked to stop"""


class Decisions:
    """The decisions of a run, from the processes that train it and the signals that they get."""

    def __init__(self, group: Group, guard: InterruptGuard) -> None:
        self._group = group
        self._guard = guard
        self._is_alone = group.num_processes == 1
        self._is_stopped = False

    @property
    def is_signaled(self) -> bool:
        """Whether this process has got a signal to stop."""
        return self._guard.requested

    def stops_rollout(self) -> bool:
        """Whether a rollout stops in the middle: alone it may, but several processes stop after the same iteration."""
        return self._is_alone and self.is_signaled

    def agree_to_start(self) -> bool:
        """Whether no process was asked to stop before the first iteration; every process must ask."""
        return not self._group.any_process(self.is_signaled)

    def gather(self, result: StepResult, restarts: int | None, save: bool) -> IterationOutcome:
        """The outcome of an iteration in all processes; `save` says whether it is time to save here."""
        own = part_of(result, restarts, self.is_signaled, save, self._group.reports_learners)
        return merged(self._group.gather(own))

    def agree_to_end(self, wanted: bool) -> bool:
        """Whether any process wants to end the run after this iteration; every process must ask."""
        answers = self._group.gather([bool(wanted), self.is_signaled])
        self._is_stopped = any(signaled for _, signaled in answers)
        return any(ending for ending, _ in answers)

    def should_stop(self) -> bool:
        """Whether a signal has stopped the run; several processes have agreed on it in `agree_to_end`."""
        return self.is_signaled if self._is_alone else self._is_stopped


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


def merged(parts: list[dict[str, Any]]) -> IterationOutcome:
    """The parts of all processes as one outcome."""
    first = parts[0]
    restarts = {} if first["restarts"] is None else {RESTARTS: sum(part["restarts"] for part in parts)}
    names = dict.fromkeys(name for part in parts for name in part["metrics"])
    metrics = {name: [value for part in parts for value in _values_of(part, name)] for name in names}
    return IterationOutcome(
        restarts | metrics,
        next((part["fault"] for part in parts if part["fault"] is not None), None),
        [cause for part in parts for cause in part["causes"]],
        max((Seconds(*part["seconds"]) for part in parts), key=lambda seconds: seconds.collect + seconds.learn),
        first["save"],
        any(part["stop"] for part in parts),
    )


def _values_of(part: dict[str, Any], name: str) -> list[float]:
    """A metric of the learners of a process; NaN if the process does not have it, as with success before the first."""
    return part["metrics"].get(name, [math.nan] * len(part["causes"]))
