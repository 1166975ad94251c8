"""One iteration of training, as callers and callbacks see it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trustax.agent import Agent
from trustax.errors import TrustaxError
from trustax.networks import Policy
from trustax.ops.metrics import STEP, Record
from trustax.run import Run
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState, is_deleted
from trustax.storage.loading import agent_of, as_dict


@dataclass(frozen=True)
class Iteration:
    """One iteration of training, as `iterations` yields it and as callbacks see it.

    The state and the agents are valid until the next iteration starts, which reuses their buffers. Save them or copy
    them to the host to keep them.
    """

    run: Run
    number: int
    """counted from 1"""
    records: Sequence[Record] = field(repr=False)
    """the metrics of all iterations of the run so far"""
    state: RunState = field(repr=False)
    run_dir: Path | None = None
    checkpoint: Path | None = None
    """the checkpoint that was written after this iteration, if any"""
    series: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """the traced metrics: `seed update`, or `seed` for a metric of the whole iteration"""
    old_policy: Policy | None = field(default=None, repr=False)
    """the policies that collected the rollout, on the host; None if no metrics are traced"""
    group: Group = field(default_factory=Group, repr=False)
    """the processes of a distributed run"""
    log_record: Callable[[Record], Any] = field(default=lambda record: None, repr=False)
    """sends a record to the loggers of the run"""
    should_stop: Callable[[], bool] = field(default=lambda: False, repr=False)
    """whether a signal asks the run to stop, so that a callback should end long work"""
    record: Record = field(init=False, repr=False)
    """the metrics of this iteration, by name; a metric of the learners is a list with one value per seed"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", self.records[-1])

    @property
    def timesteps(self) -> int:
        """Environment steps per learner so far."""
        return self.number * self.run.batch_size

    @property
    def is_last(self) -> bool:
        return self.number == self.run.num_iterations

    @property
    def learners(self) -> range:
        """The learners that this process trains, by index: all of them, unless the run is distributed."""
        return self.group.learners(self.run)

    def agent(self, learner: int = 0, policy: str = "policy") -> Agent:
        """The current agent of a learner, given by its index. `policy="virtual"` returns MCPO's ψ instead of θ."""
        if is_deleted(self.state):
            raise TrustaxError(
                f"iteration {self.number} has no agents any more, because a later one has reused their memory; call "
                "agent() before the next iteration starts"
            )
        return agent_of(self.run, as_dict(self.state), learner, policy, self.learners.start)

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Send metrics to the loggers of the run, at the step of this iteration.

        Each value is a number, or a list with one number for each learner of the run, whose mean and spread TensorBoard
        then shows; None or NaN means that there is no value. The run's own metrics and `metrics.jsonl` do not change.
        In a distributed run, process 0 logs.
        """
        checked = {name: self._check_metric(name, value) for name, value in metrics.items()}
        self.log_record({STEP: self.timesteps} | checked)

    def _check_metric(self, name: str, value: Any) -> float | list[float | None] | None:
        if not isinstance(name, str) or not name or name in self.record:
            raise TrustaxError(f"{name!r} cannot be logged: the name must be a string that no metric of the run has")
        try:
            if np.ndim(value) == 0:
                return _number(value)
            metric = [_number(one) for one in value]
        except (TypeError, ValueError, OverflowError):
            text = " ".join(repr(value).split())[:80]
            raise TrustaxError(
                f"{name} cannot be logged: expected a number or a list with one number per learner, not {text}"
            ) from None
        if len(metric) != self.run.num_seeds:
            raise TrustaxError(
                f"{name} cannot be logged: expected one number for each of the {self.run.num_seeds} learners, not "
                f"{len(metric)} numbers"
            )
        return metric


def _number(value: Any) -> float | None:
    """A value as a number that loggers take; None if it is not finite."""
    if isinstance(value, str | bytes) or np.ndim(value):
        raise TypeError
    return None if value is None or not math.isfinite(value) else float(value)
