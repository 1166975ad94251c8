"""The process that trains one run of a sweep: without output, resuming if possible, and exiting when its parent dies.

The job arrives as one line of JSON on stdin, which the parent keeps open while it lives. Exit codes: 0 finished,
75 stopped and saved, 2 failed with a `TrustaxError`, whose message is the last line of stderr.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.run import Run, from_json, read_run, to_json
from trustax.runtime.interrupt import EXIT_CODE, Interrupted
from trustax.runtime.loop import TrainingLoop
from trustax.storage.history import newest_valid, step_of
from trustax.storage.journal import METRICS_FILE, read_records
from trustax.storage.object_store import StoredRun
from trustax.storage.reading import TAIL, end_of_lines, open_regular
from trustax.storage.records import parse_record

CHECKPOINT_SECONDS = 0.0
"""Save as often as allowed: saving takes at most a twentieth of the time. A kill therefore loses one iteration, or 19
times the time of one save (8 to 10 ms for a small learner) if iterations are shorter than that."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run of a sweep."""

    title: str
    run: Run
    folder: Path
    notes: dict[str, Any] = field(default_factory=dict)
    """JSON values for the `on_finish` callback"""
    lease: bool = False
    """whether the folder is on a file system that several machines share, so that attempts need leases"""
    store: str | None = None
    """URL of the run in an object store; it then trains in a temporary folder, and `folder` is for the driver"""
    stop_at: int | None = None
    """stop after this many environment steps of each seed, and save; by default at the end of the run"""

    @property
    def steps(self) -> int:
        """Environment steps of each seed."""
        return self.run.num_iterations * self.run.batch_size if self.stop_at is None else self.stop_at

    def to_line(self) -> str:
        return json.dumps(
            {
                "title": self.title,
                "run": to_json(self.run),
                "folder": str(self.folder),
                "notes": self.notes,
                "lease": self.lease,
                "store": self.store,
                "stop_at": self.stop_at,
            }
        )

    @classmethod
    def from_line(cls, line: str) -> "Job":
        values = json.loads(line)
        return cls(
            title=values["title"],
            run=from_json(values["run"]),
            folder=Path(values["folder"]),
            notes=values["notes"],
            lease=values["lease"],
            store=values["store"],
            stop_at=values["stop_at"],
        )


def work(on_finish: Callable[[Job, Sequence[Record]], None] | None = None) -> None:
    """Train the job from stdin, pass its records to `on_finish`, and exit with the code above."""
    line = sys.stdin.readline()
    _exit_with_parent()
    try:
        job = Job.from_line(line)
        records = None if job.store else finished_records(job.run, job.folder, job.stop_at)
        if records is None:
            records = train_job(job)
        if on_finish:
            on_finish(job, records)
    except TrustaxError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except Interrupted:
        sys.exit(EXIT_CODE)


def train_job(job: Job, on_record: Callable[[Record], None] | None = None) -> Sequence[Record]:
    """Train a job in this process, and call `on_record` after each iteration."""
    loop = TrainingLoop(
        job.run,
        run_dir=job.store or job.folder,
        resume=True,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        quiet=True,
        lease=job.lease and job.store is None,
    )
    with loop:
        for iteration in loop:
            if on_record is not None:
                on_record(iteration.record)
            if iteration.timesteps >= job.steps:
                break
    return loop.records


def finished_records(
    run: Run, folder: Path, stop_at: int | None = None, store: str | None = None
) -> Sequence[Record] | None:
    """All records of a run whose last iteration was saved; None if the run is unfinished.

    With `stop_at`, the records up to this step, if the run was saved there or later. With `store`, the URL of the run
    in an object store, its metrics are copied to the folder.
    """
    saved = _saved_step(folder) if store is None else _copied_step(store, folder)
    if stop_at is not None and saved is not None and saved > stop_at and read_run(folder) == run:
        return [record for record in read_records(folder) if record[STEP] <= stop_at]
    steps = run.num_iterations * run.batch_size if stop_at is None else stop_at
    if saved != steps or read_run(folder) != run:
        return None
    records = read_records(folder)
    return records if records and records[-1][STEP] == steps else None


def _saved_step(folder: Path) -> int | None:
    """The step of the newest checkpoint in a folder."""
    newest = newest_valid(folder)
    return None if newest is None else step_of(newest)


def _copied_step(store: str, folder: Path) -> int | None:
    """Copy the metrics of a run from its store; returns the step of its newest checkpoint there."""
    saved = StoredRun(store).download(folder, with_arrays=False)
    return None if saved is None else saved.step


def training_seconds(run: Run, records: Sequence[Record]) -> float:
    """The total time of all iterations, also if the run was stopped and resumed.

    The time of each iteration is summed, because `time/time_elapsed` also has the time of saving and of callbacks.
    """
    return sum(run.num_seeds * run.batch_size / record["time/fps"] for record in records)


def failure_of(job: Job, code: int, stderr: bytes) -> str | None:
    """The reason in one line why a worker ended with this exit code; None if its run has finished.

    An unexpected error is also written to a log beside the run's folder, which the reason names.
    """
    if code == 0:
        return None
    lines = stderr.decode(errors="replace").strip().splitlines() or ["the worker printed nothing"]
    if code == 2:
        return lines[-1]
    if code in (EXIT_CODE, -signal.SIGTERM):
        return "stopped by another process; run the same command to continue"
    see = _write_log(job.folder.with_name(f"{job.folder.name}.log"), stderr)
    if code < 0:
        why = ", perhaps because memory ran out" if code == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{why}; {see}"
    return f"{lines[-1]}; {see}"


def _write_log(log: Path, content: bytes) -> str:
    """Write a log; returns where to find it, or why there is none."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(content)
    except OSError as error:
        return f"its log {log} cannot be written: {error.strerror or error}"
    return f"see {log}"


def last_record(folder: Path, tail: int = TAIL) -> Record | None:
    """The newest complete record of a run, which another process may be writing; None if there is none."""
    try:
        with open_regular(folder / METRICS_FILE) as file:

            def read(start: int) -> bytes:
                file.seek(start)
                return file.read()

            return newest_record(end_of_lines(read, file.seek(0, os.SEEK_END), tail))
    except OSError:
        return None


def newest_record(content: bytes) -> Record | None:
    """The last complete record in the end of a `metrics.jsonl`; None if there is none."""
    try:
        return parse_record(content.split(b"\n")[:-1][-1])
    except (ValueError, IndexError):
        return None


def _exit_with_parent() -> None:
    """Exit as soon as the parent dies, which closes its end of the pipe."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(EXIT_CODE)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    work()
