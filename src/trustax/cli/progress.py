"""Progress of a run: a progress bar in a terminal, or a plain line at intervals in a log.

Everything is written to stderr, which leaves stdout to the caller.
"""

import contextlib
import io
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from trustax.cli.formatting import mean_and_spread, short_count, short_duration
from trustax.ops.metrics import RETURN, STEP

SECONDS_BETWEEN_LINES = 10.0
RATE_WINDOW_SECONDS = 30.0
WIDE = 100
"""In a terminal with fewer columns, the bar is short and the rate is not shown."""


class OptionalOutput:
    """A stream that ignores errors, so that a run continues when its output is closed, as after `| head`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # a closed stream raises a ValueError
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def output_console() -> Console:
    """A console on stderr that cannot end a run."""
    return Console(file=cast(TextIO, OptionalOutput(sys.stderr or io.StringIO())))


class Terminal:
    """Shows the progress of a run; call `update` with every record.

    A resumed run starts at `initial_timesteps`, which count as done but do not enter the steps per second. Steps are
    counted per seed, and steps per second over all seeds.
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
        self._console = console or output_console()
        self._quiet = quiet
        self._started = self._last_line = clock()
        self._recent: deque[tuple[float, int]] = deque([(self._started, initial_timesteps)])
        self._excluded_seconds = 0.0
        self._starts_slowly = False
        self._bar = _progress_bar(self._console) if self._console.is_terminal and not quiet else None
        self._task = TaskID(0)
        if self._bar:
            self._task = self._bar.add_task(title, total=total_timesteps, **self._status())

    def __enter__(self) -> "Terminal":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        self._print(self._summary(finished=kind is None and self._done >= self._total))

    def note(self, text: str) -> None:
        """Show a remark about the run."""
        self._print(f"{self._title}: {text}")

    def update(self, record: Mapping[str, Any]) -> None:
        """Take the steps and the return from a record, and show them: in the bar at once, in a log at intervals."""
        now = self._clock()
        self._done = record[STEP]
        self._returns = record.get(RETURN)
        if self._starts_slowly:  # nothing is known about the rate yet
            self._starts_slowly = False
            self._recent = deque([(now, self._done)])
        else:
            self._recent.append((now, self._done))
        while len(self._recent) > 1 and now - self._recent[1][0] > RATE_WINDOW_SECONDS:
            self._recent.popleft()
        if self._bar:
            self._refresh()
        elif now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._print(f"{self._title}: {', '.join(filter(None, self._status().values()))}")

    def expect_slow_start(self, why: str) -> None:
        """Show why the first record takes longer than the others, and leave it out of the steps per second."""
        self._starts_slowly = True
        self.note(f"{why} …")

    @contextmanager
    def timed(self, activity: str) -> Iterator[None]:
        """Show an activity and then its duration, which does not enter the steps per second."""
        start = self._clock()
        if self._bar:
            # Without a total the bar pulses; the activity is shown instead of the numbers.
            self._bar.update(self._task, total=None, steps="", rate="", returns="", left=f"{activity} …")
        else:
            self._print(f"{self._title}: {activity} …")
        yield
        now = self._clock()
        self._excluded_seconds += now - start
        self._recent = deque([(now, self._done)])
        self._refresh()
        self._print(f"{self._title}: {activity} took {now - start:.1f} s")

    def _status(self) -> dict[str, Any]:
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
            status = self._status()
            if self._console.width < WIDE:
                status["steps"] = status["steps"].removesuffix(" steps")
            self._bar.update(self._task, completed=self._done, total=self._total, **status)

    def _summary(self, finished: bool) -> str:
        if self._initial >= self._total:
            end = short_count(self._total)
            return f"{self._title}: already finished at {end} steps; increase total_timesteps to train longer"
        elapsed = self._clock() - self._started
        steps = self._done - self._initial
        training = elapsed - self._excluded_seconds
        rate = f" ({short_count(self._num_seeds * steps / training)} steps/s)" if steps > 0 and training > 0 else ""
        ending = "finished" if finished else "stopped"
        reached = f"{ending} at {short_count(self._done)}/{short_count(self._total)} steps"
        return f"{self._title}: {reached} after {short_duration(elapsed)}{rate}, {self._status()['returns']}"

    def _print(self, line: str) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _progress_bar(console: Console) -> Progress:
    is_wide = console.width >= WIDE
    rate = [TextColumn("{task.fields[rate]}", style="dim", markup=False)] if is_wide else []
    bar_width = None if is_wide else 10
    # Without markup, so that brackets in a title are shown literally.
    return Progress(
        TextColumn("{task.description}", style="bold cyan", markup=False),
        BarColumn(bar_width=bar_width, complete_style="cyan", finished_style="green", pulse_style="cyan"),
        TextColumn("{task.fields[steps]}", style="default", markup=False),
        *rate,
        TextColumn("{task.fields[returns]}", style="bold", markup=False),
        TextColumn("{task.fields[left]}", style="dim", markup=False),
        console=console,
        expand=True,
        refresh_per_second=4,
        # Output of the caller that goes to a file must not be redirected to the bar on stderr.
        redirect_stdout=sys.stdout.isatty(),
    )
