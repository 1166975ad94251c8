"""What a person sees while a run trains: a progress bar in a terminal, now and then a plain line in a log.

All of it goes to stderr, so that stdout stays with whoever called.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from trustax.cli.formatting import mean_and_spread, short_count, short_duration
from trustax.ops.metrics import RETURN, STEP

SECONDS_BETWEEN_LINES = 10.0
SECONDS_OF_RECENT_RATE = 30.0


class Terminal:
    """Shows how far a run has come; give `update` every record of its journal.

    A resumed run starts at `initial_timesteps`: they count as done, but not in the steps per second. These are of all
    seeds together, while the steps that are done are those of each.
    """

    def __init__(
        self,
        total_timesteps: int,
        title: str,
        quiet: bool = False,
        initial_timesteps: int = 0,
        num_seeds: int = 1,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._title = title
        self._total = total_timesteps
        self._initial = initial_timesteps
        self._num_seeds = num_seeds
        self._done = initial_timesteps
        self._returns: Any = None
        self._clock = clock
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self._started = self._last_line = clock()
        self._recent: deque[tuple[float, int]] = deque([(self._started, initial_timesteps)])
        self._waited = 0.0
        self._bar = _progress_bar(self._console) if self._console.is_terminal and not quiet else None
        self._task = TaskID(0)
        if self._bar:
            self._task = self._bar.add_task(title, total=total_timesteps, **self._facts())

    def __enter__(self) -> "Terminal":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        self._print(self._last_words(finished=kind is None and self._done >= self._total))

    def update(self, record: Mapping[str, Any]) -> None:
        """Take over what a journal record says of steps and returns, and show it when it is time."""
        now = self._clock()
        self._done = record[STEP]
        self._returns = record.get(RETURN)
        self._recent.append((now, self._done))
        while now - self._recent[1][0] > SECONDS_OF_RECENT_RATE:
            self._recent.popleft()
        if self._bar:
            self._refresh()
        elif now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._print(f"{self._title}: {', '.join(filter(None, self._facts().values()))}")

    @contextmanager
    def waiting(self, activity: str) -> Iterator[None]:
        """Say what takes so long and, once it is over, how long it took; it counts in no rate."""
        start = self._clock()
        if self._bar:
            # Without a total the bar pulses; the activity stands in the place of the numbers.
            self._bar.update(self._task, total=None, steps="", rate="", returns="", left=f"{activity} …")
        else:
            self._print(f"{self._title}: {activity} …")
        yield
        now = self._clock()
        self._waited += now - start
        self._recent = deque([(now, self._done)])
        self._refresh()
        self._print(f"{self._title}: {activity} took {now - start:.1f} s")

    def _facts(self) -> dict[str, Any]:
        (first_time, first_steps), (last_time, last_steps) = self._recent[0], self._recent[-1]
        rate = (last_steps - first_steps) / (last_time - first_time) if last_time > first_time else 0.0
        return {
            "steps": f"{short_count(self._done)}/{short_count(self._total)} steps",
            "rate": f"{short_count(self._num_seeds * rate)} steps/s" if rate > 0 else "",
            "returns": f"return {mean_and_spread(self._returns)}",
            "left": f"{short_duration((self._total - self._done) / rate)} left" if rate > 0 else "",
        }

    def _refresh(self) -> None:
        if self._bar:
            self._bar.update(self._task, completed=self._done, total=self._total, **self._facts())

    def _last_words(self, finished: bool) -> str:
        if self._initial >= self._total:
            end = short_count(self._total)
            return f"{self._title}: has ended already, at {end} steps; a larger total_timesteps makes it longer"
        elapsed = self._clock() - self._started
        steps = self._done - self._initial
        trained = elapsed - self._waited
        rate = f" ({short_count(self._num_seeds * steps / trained)} steps/s)" if steps > 0 and trained > 0 else ""
        how = "finished" if finished else "stopped"
        reached = f"{how} at {short_count(self._done)}/{short_count(self._total)} steps"
        return f"{self._title}: {reached} after {short_duration(elapsed)}{rate}, {self._facts()['returns']}"

    def _print(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _progress_bar(console: Console) -> Progress:
    # Without markup: a title with brackets in it is shown as it is.
    return Progress(
        TextColumn("{task.description}", style="bold cyan", markup=False),
        BarColumn(bar_width=None, complete_style="cyan", finished_style="green", pulse_style="cyan"),
        TextColumn("{task.fields[steps]}", style="default", markup=False),
        TextColumn("{task.fields[rate]}", style="dim", markup=False),
        TextColumn("{task.fields[returns]}", style="bold", markup=False),
        TextColumn("{task.fields[left]}", style="dim", markup=False),
        console=console,
        expand=True,
        refresh_per_second=4,
        # A bar on stderr must not take along what a script prints into a file.
        redirect_stdout=sys.stdout.isatty(),
    )
