"""The result of a run, as `train` returns it and as callbacks see it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trustax.agent import Agent
from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, STEP, Record, finite_values
from trustax.run import Run
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState
from trustax.storage.loading import agent_of, as_dict, load

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Result:
    """The result of a run: its metrics and its learners."""

    run: Run
    records: Sequence[Record] = field(repr=False)
    """The metrics of each iteration; with a `run_dir`, they are read from its `metrics.jsonl` when asked for."""
    state: RunState = field(repr=False)
    """The state of all learners; in a distributed run, of those that this process has trained."""
    run_dir: Path | None = None
    group: Group = field(default_factory=Group, repr=False)
    """The processes of a distributed run."""

    def agent(self, learner: int = 0, policy: str = "policy") -> Agent:
        """The agent of a learner, given by its index. `policy="virtual"` returns MCPO's ψ instead of θ."""
        own = self.group.learners(self.run)
        if self.run_dir is not None and learner not in own and 0 <= learner < self.run.num_seeds:
            return load(self.run_dir, learner, policy)
        return agent_of(self.run, as_dict(self.state), learner, policy, own.start)

    def plot(self, path: str | Path, metric: str = RETURN) -> None:
        """Plot the learning curve, or another metric, with its spread over the seeds, as PNG, SVG or PDF.

        Learners with different settings have a curve each.
        With a `run_dir` and the callback `Evaluate`, `metric="eval/mean_reward"` plots the evaluations.
        """
        from trustax.plotting.curves import plot_curves  # Matplotlib takes half a second to import
        from trustax.plotting.learners import by_setting

        plot_curves(by_setting(self.run, self.records), Path(path), title=self.run.env_id, metric=metric)

    def to_pandas(self) -> "pandas.DataFrame":
        """The metrics as a tidy table: one row per iteration and learner, one column per metric."""
        try:
            import pandas
        except ImportError:
            raise TrustaxError("Result.to_pandas needs pandas: pip install pandas") from None
        rows = [
            {"step": record[STEP], "learner": learner, "seed": seed}
            | {name: value[learner] if isinstance(value, list) else value for name, value in record.items()}
            for record in self.records
            for learner, seed in enumerate(self.run.seeds)
        ]
        return pandas.DataFrame(rows).drop(columns=STEP)

    def __repr__(self) -> str:
        steps = self.records[-1][STEP] if self.records else 0
        returns = finite_values(self.records[-1].get(RETURN)) if self.records else []
        final = f", return {np.mean(returns):.4g}" if returns else ""
        final += f" ± {np.std(returns):.2g}" if len(returns) > 1 else ""
        seeds = f"{self.run.num_seeds} seed{'s' if self.run.num_seeds > 1 else ''}"
        return f"Result({self.run.algorithm_name} on {self.run.env_id}, {seeds}, {steps:,} steps{final})"
