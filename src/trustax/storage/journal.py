"""The metrics of a run: `metrics.jsonl`, one JSON object per iteration.

A metric is a number, or a list with one number per seed. A number that is not finite (before the first episode has
ended, for example) is written as null, so that every line is strict JSON.
"""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP
from trustax.storage.atomic import AppendOnlyFile
from trustax.storage.records import FileRecords, MemoryRecords, Records

METRICS_FILE = "metrics.jsonl"


class Journal:
    """Appends records to `metrics.jsonl` in `run_dir`; without a `run_dir` it only keeps them in memory.

    To resume a run, pass the step of its checkpoint as `resume_at`: later records are removed, since they will be
    recorded again. With `batch_size`, the steps of an iteration, missing iterations are reported on stderr.

    >>> with Journal(None) as journal:
    ...     journal.record({"time/total_timesteps": 8, "rollout/ep_rew_mean": [1.0, float("nan")]})
    >>> journal.records[0]
    {'time/total_timesteps': 8, 'rollout/ep_rew_mean': [1.0, None]}
    """

    records: Records

    def __init__(self, run_dir: Path | None, resume_at: int | None = None, batch_size: int | None = None):
        self.records = MemoryRecords()
        self._file: AppendOnlyFile | None = None
        if run_dir is None:
            return
        metrics = run_dir / METRICS_FILE
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            if resume_at is not None:
                metrics.touch()
                _truncate_after(metrics, resume_at, batch_size)
            elif metrics.exists() and metrics.stat().st_size > 0:
                raise TrustaxError(f"{metrics} already exists; resume this run or choose another folder")
            self._file = AppendOnlyFile(metrics)
            self.records = FileRecords(metrics.absolute(), metrics.stat().st_size, self._file)
        except OSError as error:
            raise TrustaxError(f"could not open the journal in {run_dir}: {error}") from error

    def record(self, metrics: Mapping[str, float | int | Sequence[float | int]]) -> None:
        """Store and write one record. It must have `time/total_timesteps`, the step in TensorBoard."""
        if not isinstance(metrics.get(STEP), int):
            raise ValueError(f"a record needs an integer {STEP}, not {metrics.get(STEP)!r}")
        self.records.append({name: _finite_or_none(value) for name, value in metrics.items()})

    def sync(self) -> None:
        """Wait until all records are on the disk: a checkpoint must not outlive the records before it."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_records(run_dir: Path | str) -> FileRecords:
    """The records of a run, except an incomplete last line that is still being written.

    They are read from the file when they are asked for; a damaged line raises an error then. Their attribute
    `evaluations` has the records that the callback `Evaluate` has written.
    """
    return FileRecords.of(Path(run_dir) / METRICS_FILE)


def _finite_or_none(value: Any) -> Any:
    if isinstance(value, Sequence):
        return [_finite_or_none(one) for one in value]
    return value if value is not None and math.isfinite(value) else None


def _truncate_after(path: Path, step: int, batch_size: int | None) -> None:
    """Remove the records after `step` from the file, and report iterations up to `step` that are missing."""
    last, kept, cut = 0, 0, False
    missing: list[str] = []
    for number, (record, end) in enumerate(read_records(path.parent).with_ends(), start=1):
        if record[STEP] > step:
            cut = True
        elif cut or record[STEP] <= last:
            raise TrustaxError(f"{path}, line {number}: {STEP} is out of order; correct or delete this line")
        else:
            missing += _iterations_between(last, record[STEP], batch_size)
            last, kept = record[STEP], end
    missing += _iterations_between(last, step + (batch_size or 0), batch_size)
    if missing:
        print(
            f"{path} lacks iterations {', '.join(missing)}, which were lost; training continues exactly, but the "
            "curves have a gap",
            file=sys.stderr,
        )
    os.truncate(path, kept)


def _iterations_between(last: int, step: int, batch_size: int | None) -> list[str]:
    """The iterations between two records, in words; empty if there are none."""
    if batch_size is None or step - last <= batch_size:
        return []
    first, end = last // batch_size + 1, step // batch_size - 1
    return [f"{first}" if first >= end else f"{first} to {end}"]
