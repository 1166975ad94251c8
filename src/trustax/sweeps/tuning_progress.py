"""Trains the jobs of a study, in this process or on an engine, and shows how far the study is and how long it takes."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from trustax.cli.formatting import short_duration
from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.sweeps.engines import SweepEngine
from trustax.sweeps.pool import Failure, run_jobs
from trustax.sweeps.worker import Job, last_record, train_job


class TuningProgress:
    """One bar for the whole study, and a line after each generation.

    `planned` are the environment steps of each generation that is still to be trained. Engines show their own bars, so
    with them only the lines are shown.
    """

    def __init__(
        self, title: str, planned: Sequence[int], trials: int, console: Console, shows_bar: bool = True
    ) -> None:
        self._console = console
        self._trials = trials
        self._planned = list(planned)
        self._generation = 0
        self._steps = 0
        self._started = time.monotonic()
        self._shows_bar = shows_bar and console.is_terminal and not console.quiet
        self._bar = Progress(
            TextColumn("{task.description}", style="bold cyan", markup=False),
            BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[now]}", markup=False),
            TextColumn("{task.fields[left]}", style="dim", markup=False),
            console=console,
            expand=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._bar.add_task(title, total=sum(planned) or 1, now="starting …", left="")

    def __enter__(self) -> "TuningProgress":
        if self._shows_bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows_bar:
            self._bar.stop()

    def start(self, job: Job) -> None:
        self._bar.update(self._task, now=f"{job.title}, compiling …")

    def advance(self, job: Job, steps: int) -> None:
        """Add environment steps of all learners of a job."""
        self._steps += steps
        self._bar.update(self._task, completed=self._done(), now=job.title, left=self._left())

    def end_generation(self, ended: int, best: float | None) -> None:
        """Print a line. A generation that trains fewer steps than planned counts as complete."""
        self._generation += 1
        self._steps = 0
        found = "no trial is complete" if best is None else f"best {best:.4g}"
        left = self._left()
        self._bar.update(self._task, completed=self._done(), left=left)
        line = ", ".join(filter(None, (f"{ended} of {self._trials} trials", found, left)))
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _done(self) -> int:
        return sum(self._planned[: self._generation]) + self._steps

    def _left(self) -> str:
        done, total = self._done(), sum(self._planned)
        if not 0 < done < total:
            return ""
        return f"{short_duration((time.monotonic() - self._started) * (total - done) / done)} left"


def train_here(progress: TuningProgress, jobs: Sequence[Job]) -> list[Failure]:
    """Train the jobs in this process, one after the other; return the failures."""
    failures = []
    for job in jobs:
        progress.start(job)
        before = last_record(job.folder)
        steps = 0 if before is None else int(before[STEP])

        def advance(record: Record, job: Job = job) -> None:
            nonlocal steps
            progress.advance(job, max(0, record[STEP] - steps) * job.run.num_seeds)
            steps = max(steps, record[STEP])

        try:
            train_job(job, advance)
        except TrustaxError as error:
            failures.append(Failure(job, str(error)))
    return failures


def train_on(engine: SweepEngine, title: str, console: Console, jobs: Sequence[Job]) -> list[Failure]:
    """Train the jobs on an engine, side by side; return the failures."""
    return run_jobs(jobs, engine, title, console=console)
