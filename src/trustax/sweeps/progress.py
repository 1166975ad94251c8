"""Shows the progress of a sweep on stderr.

A terminal gets one bar per active run and one for the whole sweep; a log gets one line per minute. Every run that ends
prints a line.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn

from trustax.cli.formatting import mean_and_spread, short_count, short_duration
from trustax.cli.progress import output_console
from trustax.ops.metrics import RETURN, STEP
from trustax.sweeps.worker import Job

SECONDS_BETWEEN_LINES = 60.0
SECONDS_OF_RECENT_RATE = 60.0
NO_FIELDS: dict[str, Any] = {"node": "", "steps": "", "rate": "", "returns": "", "left": ""}


class SweepProgress:
    """Shows how far the runs of a sweep are; `done` maps job titles to the steps that an earlier sweep completed."""

    def __init__(
        self,
        title: str,
        jobs: Iterable[Job],
        done: Mapping[str, int],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._console = console or output_console()
        self._clock = clock
        self._steps = {job.title: done.get(job.title, 0) * job.run.num_seeds for job in jobs}
        self._total = sum(job.steps * job.run.num_seeds for job in jobs)
        self._ended = 0
        self._initial = sum(self._steps.values())
        self._started = self._last_line = clock()
        self._bars = _bars(self._console, clock)
        self._running: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._all = self._bars.add_task(title, total=self._total, completed=self._initial, **self._total_fields())

    def __enter__(self) -> "SweepProgress":
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (*self._running.values(), self._all):
            self._bars.remove_task(task)
        if self._console.is_terminal:
            self._bars.stop()

    def start(self, job: Job, done: int) -> None:
        """Add the bar of a run that starts or resumes after `done` steps."""
        how = "resuming" if done else "starting"
        # Bars appear in the order in which they were added; the bar of the whole sweep stays last.
        self._bars.remove_task(self._all)
        fields = NO_FIELDS | {"steps": f"{how} …"}
        self._running[job.title] = self._bars.add_task(job.title, total=job.steps, completed=done, **fields)
        self._all = self._bars.add_task(
            self._title, total=self._total, completed=sum(self._steps.values()), **self._total_fields()
        )
        self._began[job.title] = self._clock()

    def is_shown(self, job: Job) -> bool:
        return job.title in self._running

    def update(self, job: Job, record: Mapping[str, Any], node: str | None = None) -> None:
        """Update the bar of a run from its newest record; `node` is where it runs, if not on this machine."""
        steps = int(record[STEP])
        bar = self._running[job.title]
        task = self._task(bar)
        if steps == task.completed:
            return
        self._steps[job.title] = steps * job.run.num_seeds
        self._bars.update(bar, completed=steps)
        self._bars.update(bar, **_fields(task, record), node=node or "")
        self._refresh()

    def refresh(self) -> None:
        """Update the remaining time; in a log, print a line once per minute."""
        self._refresh()
        if self._console.is_terminal or self._clock() - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = self._clock()
        shares = [f"{task.description} {task.percentage:.0f}%" for task in map(self._task, self._running.values())]
        fields = self._total_fields()
        self.print_line(f"{self._title}: {', '.join(filter(None, (fields['steps'], fields['left'], *shares)))}")

    def end(self, job: Job, record: Mapping[str, Any] | None, failure: str | None = None) -> None:
        """Remove the bar of a run that finished or failed, and print its line."""
        self._bars.remove_task(self._running.pop(job.title))
        self._ended += 1
        if failure is None:
            self._steps[job.title] = job.steps * job.run.num_seeds
            took = short_duration(self._clock() - self._began[job.title])
            returns = mean_and_spread((record or {}).get(RETURN))
            self.print_line(f"✓ {job.title}: {short_count(job.steps)} steps, return {returns}, after {took}")
        else:
            # The remaining steps of a failed run no longer count.
            self._total -= job.steps * job.run.num_seeds - self._steps[job.title]
            self.print_line(f"✗ {job.title}: {failure}")
        self._refresh()

    def stop(self, job: Job) -> None:
        """Remove the bar of a run that was stopped before its end."""
        self._bars.remove_task(self._running.pop(job.title))

    def print_line(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _task(self, number: TaskID) -> Task:
        return next(task for task in self._bars.tasks if task.id == number)

    def _refresh(self) -> None:
        self._bars.update(self._all, total=self._total, completed=sum(self._steps.values()), **self._total_fields())

    def _total_fields(self) -> dict[str, Any]:
        done = sum(self._steps.values())
        elapsed = self._clock() - self._started
        gained = done - self._initial
        left = f"{short_duration(elapsed * (self._total - done) / gained)} left" if gained > 0 else ""
        return NO_FIELDS | {"steps": f"{self._ended} of {len(self._steps)} runs", "left": left}


def _fields(task: Task, record: Mapping[str, Any]) -> dict[str, Any]:
    rate = task.speed or 0.0
    return {
        "steps": f"{short_count(task.completed)}/{short_count(task.total or 0)} steps",
        "rate": f"{short_count(rate)} steps/s" if rate > 0 else "",
        "returns": f"return {mean_and_spread(record.get(RETURN))}",
        "left": f"{short_duration(task.remaining / rate)} left" if rate > 0 and task.remaining is not None else "",
    }


def _bars(console: Console, clock: Callable[[], float]) -> Progress:
    return Progress(
        TextColumn("{task.description}", style="bold cyan", markup=False),
        BarColumn(bar_width=None, complete_style="cyan", finished_style="green"),
        *(
            TextColumn(f"{{task.fields[{name}]}}", style=style, markup=False)
            for name, style in (
                ("node", "dim"),
                ("steps", "default"),
                ("rate", "dim"),
                ("returns", "bold"),
                ("left", "dim"),
            )
        ),
        console=console,
        expand=True,
        refresh_per_second=4,
        speed_estimate_period=SECONDS_OF_RECENT_RATE,
        redirect_stdout=sys.stdout.isatty(),
        get_time=clock,
    )
