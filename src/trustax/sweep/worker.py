"""The process that trains one run of a sweep: quietly, from where it stopped, and never longer than its parent lives.

What to do comes as one line of JSON on stdin, which the parent keeps open as long as it lives. The exit code says how
it went: 0 finished, 75 stopped and saved, 2 refused; the last line of stderr then says why.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.run import Run, from_json, read_run, to_json
from trustax.runtime.interrupt import EXIT_CODE, Interrupted
from trustax.storage.history import checkpoint_path, latest
from trustax.storage.journal import METRICS_FILE, read_records
from trustax.training import train

CHECKPOINT_SECONDS = 0.0
"""A kill costs the iteration in flight; or, where an iteration is shorter than 19 times what it takes to save one (8 to
10 ms for a small learner), so much time: saving takes a twentieth of the time at most."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run of a sweep."""

    title: str
    run: Run
    folder: Path
    notes: dict[str, Any] = field(default_factory=dict)
    """JSON values for whoever is called when the run has finished"""

    @property
    def steps(self) -> int:
        """Environment steps of each seed."""
        return self.run.num_iterations * self.run.batch_size

    def to_line(self) -> str:
        return json.dumps(
            {"title": self.title, "run": to_json(self.run), "folder": str(self.folder), "notes": self.notes}
        )

    @classmethod
    def from_line(cls, line: str) -> "Job":
        values = json.loads(line)
        return cls(
            title=values["title"],
            run=from_json(values["run"]),
            folder=Path(values["folder"]),
            notes=values["notes"],
        )


def work(on_finish: Callable[[Job, list[Record]], None] | None = None) -> None:
    """Train the job that stands on stdin, hand its records to `on_finish`, and leave with the exit code."""
    job = Job.from_line(sys.stdin.readline())
    _leave_with_the_parent()
    try:
        records = finished_records(job.run, job.folder)
        if records is None:
            records = train(
                job.run, run_dir=job.folder, resume=True, checkpoint_seconds=CHECKPOINT_SECONDS, quiet=True
            ).records
        if on_finish:
            on_finish(job, records)
    except TrustaxError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except Interrupted:
        sys.exit(EXIT_CODE)


def finished_records(run: Run, folder: Path) -> list[Record] | None:
    """All that a run has recorded, if its last iteration was saved."""
    steps = run.num_iterations * run.batch_size
    if latest(folder) != checkpoint_path(folder, steps) or read_run(folder) != run:
        return None
    records = read_records(folder)
    return records if records and records[-1][STEP] == steps else None


def seconds_of(run: Run, records: list[Record]) -> float:
    """The time that the iterations took, over all parts of a run that was stopped in between.

    `time/time_elapsed` begins anew with every part, so what each iteration took is added up; to compile and to save
    is not counted.
    """
    return sum(run.num_seeds * run.batch_size / record["time/fps"] for record in records)


def last_record(folder: Path, tail: int = 65_536) -> Record | None:
    """The newest whole record of a run that another process may be writing at this moment; None without one."""
    try:
        with open(folder / METRICS_FILE, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
            lines = file.read().split(b"\n")[:-1]
        record = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return None
    return record if isinstance(record, dict) and STEP in record else None


def _leave_with_the_parent() -> None:
    """End at once when the parent has died: its end of the pipe is then closed, whatever killed it."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(EXIT_CODE)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    work()
