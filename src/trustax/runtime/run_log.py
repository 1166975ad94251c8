"""The log of a run while it trains: its metrics, its loggers and the progress that it shows."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from trustax.cli.progress import Terminal
from trustax.ops.metrics import SKIPPED, SPEED, STEP, Record
from trustax.run import Run
from trustax.runtime.decisions import IterationOutcome
from trustax.runtime.divergence import divergence_of, skipped_so_far
from trustax.runtime.train_step import Seconds
from trustax.storage.journal import Journal
from trustax.storage.loggers import Loggers
from trustax.storage.records import Records


class RunLog:
    """Writes and shows the record of every iteration.

    In a distributed run, process 0 has the log; the other processes only keep the newest record (`is_first` False).
    """

    def __init__(self, run: Run, journal: Journal, loggers: Loggers, terminal: Terminal, is_first: bool) -> None:
        self.terminal = terminal
        self._run = run
        self._journal = journal
        self._loggers = loggers
        self._is_first = is_first

    @property
    def records(self) -> Records:
        return self._journal.records

    def record(self, outcome: IterationOutcome, iteration: int, elapsed: float) -> str | None:
        """Write the record of an iteration; returns an error if a learner has diverged."""
        record = _time_metrics(self._run, iteration, outcome.seconds, elapsed) | outcome.metrics
        if self._is_first:
            self._journal.record(record | {SKIPPED: skipped_so_far(self.records, outcome.causes)})
            return divergence_of(self.records, outcome.causes, self._run.num_iterations)
        self._journal = Journal(None)
        self._journal.record(record)
        return None

    def show(self) -> None:
        """Pass the newest record to the loggers and to the terminal."""
        self.log(self.records[-1])
        self.terminal.update(self.records[-1])

    def log(self, record: Record) -> None:
        """Send metrics that are not part of the run's records, such as those of callbacks, to the loggers."""
        if self._is_first:
            self._loggers.log(record)

    def sync(self) -> None:
        """Wait until all records are on the disk."""
        self._journal.sync()


@contextmanager
def open_log(
    run: Run, run_dir: Path | None, loggers: Loggers, *, timesteps: int, resume: bool, quiet: bool, is_first: bool
) -> Iterator[RunLog]:
    """Open the log of a run at its first iteration, or at that from which it resumes."""
    resume_at = timesteps if resume else None
    with (
        Journal(run_dir if is_first else None, resume_at, run.batch_size) as journal,
        _make_terminal(run, timesteps, quiet or not is_first) as terminal,
    ):
        log = RunLog(run, journal, loggers, terminal, is_first)
        if not is_first:
            yield log
            return
        with closing(loggers):
            loggers.start(run, resume_at)
            if run.total_timesteps != run.num_iterations * run.batch_size:
                terminal.note(_describe_rounding(run))
            yield log


def _make_terminal(run: Run, timesteps: int, quiet: bool) -> Terminal:
    seeds = f" × {run.num_seeds} seeds" if run.num_seeds > 1 else ""
    return Terminal(
        run.num_iterations * run.batch_size,
        f"{run.algorithm_name} on {run.env_id}{seeds}",
        quiet=quiet,
        initial_timesteps=timesteps,
        num_seeds=run.num_seeds,
    )


def _describe_rounding(run: Run) -> str:
    steps = run.num_iterations * run.batch_size
    return (
        f"total_timesteps {run.total_timesteps:,} is rounded to {steps:,}: {run.num_iterations:,} iterations of "
        f"{run.batch_size:,} steps"
    )


def _time_metrics(run: Run, iterations: int, seconds: Seconds, elapsed: float) -> Record:
    """Progress, speed, and the share of the time spent in updates and, if measured, in the environments."""
    total = seconds.collect + seconds.learn
    in_environment = (
        {} if seconds.environment is None else {"time/environment_share": round(seconds.environment / total, 3)}
    )
    return {
        "time/iterations": iterations,
        STEP: iterations * run.batch_size,
        SPEED: round(run.num_seeds * run.batch_size / total, 1),
        "time/time_elapsed": round(elapsed, 3),
        "time/update_share": round(seconds.learn / total, 3),
    } | in_environment
