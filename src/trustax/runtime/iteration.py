"""One iteration of training, as callers and callbacks see it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trustax.agent import Agent
from trustax.networks import Policy
from trustax.ops.metrics import STEP, Record
from trustax.run import Run
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState
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
    """the metrics of all iterations so far; the last entry is for this iteration"""
    state: RunState = field(repr=False)
    run_dir: Path | None = None
    checkpoint: Path | None = None
    """the checkpoint that was written after this iteration, if any"""
    series: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """the traced metrics of every update, `seed update`"""
    old_policy: Policy | None = field(default=None, repr=False)
    """the policies that collected the rollout, on the host; None if no metrics are traced"""
    group: Group = field(default_factory=Group, repr=False)
    """the processes of a distributed run"""

    @property
    def record(self) -> Record:
        """The metrics of this iteration, by name; a metric of the learners is a list with one value per seed."""
        return self.records[-1]

    @property
    def timesteps(self) -> int:
        """Environment steps per learner so far."""
        return self.record[STEP]

    @property
    def is_last(self) -> bool:
        return self.number == self.run.num_iterations

    @property
    def learners(self) -> range:
        """The learners that this process trains, by index: all of them, unless the run is distributed."""
        return self.group.learners(self.run)

    def agent(self, learner: int = 0, policy: str = "policy") -> Agent:
        """The current agent of a learner, given by its index. `policy="virtual"` returns MCPO's ψ instead of θ."""
        return agent_of(self.run, as_dict(self.state), learner, policy, self.learners.start)
