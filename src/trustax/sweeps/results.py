"""The results of a sweep: a table with intervals, learning curves, and a tidy table of final returns."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.table import Table

from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, Record
from trustax.plotting.learners import LearnerRecords
from trustax.storage.atomic import write_atomic
from trustax.storage.journal import read_records
from trustax.storage.object_store import copy_to_store
from trustax.sweeps.grid import Cell
from trustax.sweeps.pool import Failure
from trustax.sweeps.statistics import Runs, mean_interval
from trustax.sweeps.worker import Job, finished_records

if TYPE_CHECKING:
    import pandas

RESULTS_FILE = "results.csv"


class Finished(NamedTuple):
    """A cell of the grid whose run has finished."""

    cell: Cell
    job: Job
    returns: Runs
    """mean return of the last 100 training episodes of each seed; NaN if no episode has ended"""


@dataclass(frozen=True)
class SweepResult:
    """The finished runs of a sweep, and the reasons why others failed."""

    folder: Path
    finished: list[Finished] = field(repr=False)
    failures: list[Failure] = field(default_factory=list)
    store: str | None = None
    """URL of the sweep in an object store; the folder then has a copy of the metrics"""

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"SweepResult({str(self.folder)!r}: {len(self.finished)} finished{failed}{self._best()})"

    def _best(self) -> str:
        """The method with the highest mean return; empty without returns or with several environments."""
        means = {one.cell.label: one.returns[np.isfinite(one.returns)].mean() for one in self.finished if _ended(one)}
        if not means or len({one.cell.env_id for one in self.finished}) > 1:
            return ""
        best = max(means, key=means.__getitem__)
        return f"; best: {best} with a mean return of {means[best]:.4g}"

    def table(self) -> Table:
        """Final returns: one row per method and choice of settings, one column per environment."""
        env_ids = list(dict.fromkeys(one.cell.env_id for one in self.finished))
        table = Table("", *env_ids, caption="mean ± std over seeds [95% interval of the mean]")
        for label in dict.fromkeys(one.cell.label for one in self.finished):
            own = {one.cell.env_id: one.returns for one in self.finished if one.cell.label == label}
            table.add_row(label, *(_summary(own.get(env_id)) for env_id in env_ids))
        return table

    def plot(self, path: str | Path) -> None:
        """Plot the learning curves, with their spread over seeds."""
        from trustax.plotting.tasks import plot_tasks

        if not self.finished:
            raise TrustaxError("no run of the sweep has finished, so there is nothing to plot")
        tasks: dict[str, dict[str, Sequence[Record]]] = {}
        for one in self.finished:
            records = LearnerRecords(read_records(one.job.folder), one.cell.learners)
            tasks.setdefault(one.cell.env_id, {})[one.cell.label] = records
        plot_tasks(tasks, Path(path))

    def rows(self) -> list[dict[str, Any]]:
        """The final return of every learner, as rows of a tidy table with a column for each setting that varies."""
        return [
            {
                "label": one.cell.label,
                "method": one.cell.method,
                **one.cell.choice,
                "env_id": one.cell.env_id,
                "seed": one.job.run.seeds[learner],
                "return": float(value),
                "run": one.job.folder.name,
            }
            for one in self.finished
            for learner, value in zip(one.cell.learners, one.returns, strict=True)
        ]

    def to_pandas(self) -> "pandas.DataFrame":
        """The final return of every learner as a tidy table."""
        try:
            import pandas
        except ImportError:
            raise TrustaxError("SweepResult.to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.rows())

    def save(self) -> Path:
        """Write the final returns to `results.csv` in the sweep's folder, and in its store if it has one."""
        text = io.StringIO()
        rows = self.rows()
        settings = dict.fromkeys(name for one in self.finished for name in one.cell.choice)
        names = ["label", "method", *settings, "env_id", "seed", "return", "run"]
        writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path = self.folder / RESULTS_FILE
        write_atomic(path, text.getvalue())
        if self.store is not None:
            copy_to_store(path, self.store)
        return path


def collect(
    folder: Path, jobs: Sequence[tuple[Job, list[Cell]]], failures: Sequence[Failure], store: str | None = None
) -> SweepResult:
    """Read the results of the finished jobs from their folders or from their store."""
    finished = []
    for job, cells in jobs:
        records = finished_records(job.run, job.folder, store=job.store)
        if records:
            last = np.array(records[-1][RETURN], dtype=float)
            finished += [Finished(cell, job, last[cell.learners.start : cell.learners.stop]) for cell in cells]
    return SweepResult(folder, finished, list(failures), store)


def _ended(one: Finished) -> bool:
    """Whether an episode has ended."""
    return bool(np.isfinite(one.returns).any())


def _summary(returns: Runs | None) -> str:
    if returns is None:
        return "failed"
    returns = returns[np.isfinite(returns)]
    if not len(returns):
        return "no episode ended"
    mean, std = returns.mean(), returns.std()
    digits = 1 if abs(mean) >= 10 else 3
    if len(returns) == 1:
        return f"{mean:.{digits}f}"
    low, high = mean_interval(returns)
    return f"{mean:.{digits}f} ± {std:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
