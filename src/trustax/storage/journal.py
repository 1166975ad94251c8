"""The metrics of a run: `metrics.jsonl`, one JSON object per iteration.

A metric is a number, or a list with one number per seed. A number that is not finite (before the first episode has
ended, for example) is written as null, so that every line is strict JSON.
"""

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.storage.atomic import AppendOnlyFile

METRICS_FILE = "metrics.jsonl"


class Journal:
    """Appends records to `metrics.jsonl` in `run_dir`; without a `run_dir` it only keeps them in memory.

    To resume a run, pass the step of its checkpoint as `resume_at`: later records are removed, since they will be
    recorded again.

    >>> with Journal(None) as journal:
    ...     journal.record({"time/total_timesteps": 8, "rollout/ep_rew_mean": [1.0, float("nan")]})
    >>> journal.records
    [{'time/total_timesteps': 8, 'rollout/ep_rew_mean': [1.0, None]}]
    """

    records: list[Record]

    def __init__(self, run_dir: Path | None, resume_at: int | None = None):
        self.records = []
        self._file: AppendOnlyFile | None = None
        if run_dir is None:
            return
        metrics = run_dir / METRICS_FILE
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            if resume_at is not None:
                self.records = _truncate_after(metrics, resume_at)
            elif metrics.exists() and metrics.stat().st_size > 0:
                raise TrustaxError(f"{metrics} already exists; resume this run or choose another folder")
        except OSError as error:
            raise TrustaxError(f"could not open the journal in {run_dir}: {error}") from error
        self._file = AppendOnlyFile(metrics)

    def record(self, metrics: Mapping[str, float | int | Sequence[float | int]]) -> None:
        """Store and write one record. It must have `time/total_timesteps`, the step in TensorBoard."""
        if not isinstance(metrics.get(STEP), int):
            raise ValueError(f"a record needs an integer {STEP}, not {metrics.get(STEP)!r}")
        record = {name: _finite_or_none(value) for name, value in metrics.items()}
        self.records.append(record)
        if self._file is not None:
            line = json.dumps(record, allow_nan=False) + "\n"
            self._file.append(line.encode())

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


def read_records(run_dir: Path | str) -> list[Record]:
    """All records of a run, except an incomplete last line that is still being written."""
    path = Path(run_dir) / METRICS_FILE
    try:
        return [record for record, _ in _parsed_lines(path)]
    except OSError as error:
        raise TrustaxError(f"could not read {path}: {error.strerror or error}") from error


def _finite_or_none(value: Any) -> Any:
    if isinstance(value, Sequence):
        return [_finite_or_none(one) for one in value]
    return value if value is not None and math.isfinite(value) else None


def _parsed_lines(path: Path) -> list[tuple[Record, int]]:
    """Each record with the end position of its line. A last line without a newline is skipped: a kill cut it off."""
    records = []
    end = 0
    for number, line in enumerate(io.BytesIO(path.read_bytes()), start=1):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get(STEP), int):
            raise TrustaxError(f"{path}, line {number}: not a JSON object with {STEP}")
        records.append((record, end))
    return records


def _truncate_after(path: Path, step: int) -> list[Record]:
    """Remove the records after `step` from the file, and return the remaining ones."""
    if not path.exists():
        return []
    remaining = []
    for record, end in _parsed_lines(path):
        if record[STEP] > step:
            break
        remaining.append((record, end))
    os.truncate(path, remaining[-1][1] if remaining else 0)
    return [record for record, _ in remaining]
