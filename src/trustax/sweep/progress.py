"""What a person sees of a sweep: in a terminal a bar for every run that is going on and one for all; in a log now and
then a line. A run that has ended leaves a line of its own. All of it goes to stderr.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn

from trustax.cli.formatting import mean_and_spread, short_count, short_duration
from trustax.ops.metrics import RETURN, STEP
from trustax.sweep.worker import Job

SECONDS_BETWEEN_LINES = 60.0
SECONDS_OF_RECENT_RATE = 60.0
NOTHING: dict[str, Any] = {"steps": "", "rate": "", "returns": "", "left": ""}


class Overview:
    """Shows how far the runs of a sweep have come; `done` says what an earlier sweep has left of them, in steps."""

    def __init__(
        self,
        title: str,
        jobs: Iterable[Job],
        done: Mapping[str, int],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._steps = {job.title: done.get(job.title, 0) * job.run.num_seeds for job in jobs}
        self._total = sum(job.steps * job.run.num_seeds for job in jobs)
        self._ended = 0
        self._initial = sum(self._steps.values())
        self._started = self._last_line = clock()
        self._bars = _bars(self._console, clock)
        self._running: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}
        self._all = self._bars.add_task(title, total=self._total, completed=self._initial, **self._facts_of_all())

    def __enter__(self) -> "Overview":
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
        """A worker has begun with a run, of which so many steps were done before."""
        how = "going on" if done else "starting"
        # Bars stand in the order in which they were added, and that of all runs shall be the last.
        self._bars.remove_task(self._all)
        facts = NOTHING | {"steps": f"{how} …"}
        self._running[job.title] = self._bars.add_task(job.title, total=job.steps, completed=done, **facts)
        self._all = self._bars.add_task(
            self._title, total=self._total, completed=sum(self._steps.values()), **self._facts_of_all()
        )
        self._began[job.title] = self._clock()

    def update(self, job: Job, record: Mapping[str, Any]) -> None:
        """Take over the newest record of a run that is going on."""
        steps = int(record[STEP])
        bar = self._running[job.title]
        task = self._task(bar)
        if steps == task.completed:
            return
        self._steps[job.title] = steps * job.run.num_seeds
        self._bars.update(bar, completed=steps)
        self._bars.update(bar, **_facts(task, record))
        self._refresh()

    def refresh(self) -> None:
        """Show how time passes; in a log, when it is time for a line."""
        self._refresh()
        if self._console.is_terminal or self._clock() - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = self._clock()
        shares = [f"{task.description} {task.percentage:.0f} %" for task in map(self._task, self._running.values())]
        facts = self._facts_of_all()
        self.say(f"{self._title}: {', '.join(filter(None, (facts['steps'], facts['left'], *shares)))}")

    def end(self, job: Job, record: Mapping[str, Any] | None, failure: str | None = None) -> None:
        """A run has finished or failed."""
        self._bars.remove_task(self._running.pop(job.title))
        self._ended += 1
        if failure is None:
            self._steps[job.title] = job.steps * job.run.num_seeds
            took = short_duration(self._clock() - self._began[job.title])
            returns = mean_and_spread((record or {}).get(RETURN))
            self.say(f"✓ {job.title}: {short_count(job.steps)} steps, return {returns}, after {took}")
        else:
            # What will not be done is not waited for.
            self._total -= job.steps * job.run.num_seeds - self._steps[job.title]
            self.say(f"✗ {job.title}: {failure}")
        self._refresh()

    def leave(self, job: Job) -> None:
        """A run has stopped in the middle."""
        self._bars.remove_task(self._running.pop(job.title))

    def say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def _task(self, number: TaskID) -> Task:
        return next(task for task in self._bars.tasks if task.id == number)

    def _refresh(self) -> None:
        self._bars.update(self._all, total=self._total, completed=sum(self._steps.values()), **self._facts_of_all())

    def _facts_of_all(self) -> dict[str, Any]:
        done = sum(self._steps.values())
        elapsed = self._clock() - self._started
        gained = done - self._initial
        left = f"{short_duration(elapsed * (self._total - done) / gained)} left" if gained > 0 else ""
        return NOTHING | {"steps": f"{self._ended} of {len(self._steps)} runs", "left": left}


def _facts(task: Task, record: Mapping[str, Any]) -> dict[str, Any]:
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
            for name, style in (("steps", "default"), ("rate", "dim"), ("returns", "bold"), ("left", "dim"))
        ),
        console=console,
        expand=True,
        refresh_per_second=4,
        speed_estimate_period=SECONDS_OF_RECENT_RATE,
        redirect_stdout=sys.stdout.isatty(),
        get_time=clock,
    )
