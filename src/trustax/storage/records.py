"""The records of a run as sequences that take little memory: in a file, or in arrays of numbers."""

import errno
import io
import json
import math
import os
from abc import abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

from trustax.errors import TrustaxError
from trustax.ops.metrics import EVALUATION_RETURN, STEP, Record
from trustax.storage.atomic import AppendOnlyFile
from trustax.storage.reading import LINE_LIMIT, complete_lines, open_regular

CHUNK = 65_536
EVALUATIONS_FILE = "evaluations.jsonl"


class Records(Sequence[Any]):
    """The records of a run, one per iteration. They are made when they are asked for, and equal a list of them."""

    @abstractmethod
    def append(self, record: Record) -> None: ...

    @abstractmethod
    def _read(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return [self._read(each) for each in range(*index.indices(len(self)))]
        return self._read(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


class FileRecords(Records):
    """The records in a `metrics.jsonl` up to the position `size`, read from the file each time; the last one is kept.

    For random access, the number of lines before every 64 KiB of the file is known.
    """

    def __init__(self, path: Path, size: int, file: AppendOnlyFile | None = None) -> None:
        self._path = path
        self._size = size
        self._file = file
        self._last: Record | None = None
        self._lines_before: array[int] = array("Q")
        self._count: int | None = None

    @classmethod
    def of(cls, path: Path) -> "FileRecords":
        """The records that the file has now; an incomplete last line is left out."""
        with _opened(path) as file:
            return cls(path.absolute(), os.fstat(file.fileno()).st_size)

    @property
    def evaluations(self) -> list[Record]:
        """The evaluations of the run by the callback `Evaluate`; empty if there are none."""
        return read_evaluations(self._path.parent)

    def append(self, record: Record) -> None:
        """Write a record to the end of the file, which must have been given."""
        assert self._file is not None
        count, line = len(self), to_line(record)
        self._file.append(line)
        end = self._size + len(line)
        while len(self._lines_before) * CHUNK < end:
            self._lines_before.append(count)
        self._count, self._size, self._last = count + 1, end, copy_of(record)

    def __len__(self) -> int:
        if self._count is None:
            self._count = self._count_lines()
        return self._count

    def __iter__(self) -> Iterator[Record]:
        return (record for record, _ in self.with_ends())

    def with_ends(self) -> Iterator[tuple[Record, int]]:
        """Each record with the position of the end of its line."""
        end = 0
        with _opened(self._path) as file:
            for number, line in enumerate(complete_lines(file, self._size), start=1):
                end += len(line)
                yield self._parse(line, number), end

    def _count_lines(self) -> int:
        count, line_start = 0, 0
        with _opened(self._path) as file:
            for start in range(0, self._size, CHUNK):
                self._lines_before.append(count)
                if found := file.read(min(CHUNK, self._size - start)).count(b"\n"):
                    count, line_start = count + found, start
                elif start - line_start > LINE_LIMIT:
                    raise OSError(errno.EFBIG, f"a line is longer than {LINE_LIMIT} bytes")
        return count

    def _read(self, index: int) -> Record:
        if index == len(self) - 1 and self._last is not None:
            return copy_of(self._last)
        chunk = max(0, bisect_left(self._lines_before, index) - 1)
        with _opened(self._path) as file:
            file.seek(chunk * CHUNK)
            content, start = file.read(CHUNK), 0
            for _ in range(index - self._lines_before[chunk]):
                start = content.find(b"\n", start) + 1 or len(content)  # shorter if the file was cut in the meantime
            file.seek(chunk * CHUNK + start)
            line = file.readline(LINE_LIMIT)
        record = self._parse(line, index + 1)
        if index == len(self) - 1:
            self._last = copy_of(record)
        return record

    def _parse(self, line: bytes, number: int) -> Record:
        try:
            return parse_record(line)
        except (ValueError, RecursionError) as error:
            raise TrustaxError(f"{self._path}, line {number}: {error}; correct or delete this line") from None


class MemoryRecords(Records):
    """Records in arrays of numbers: 8 bytes per number instead of a Python object.

    >>> records = MemoryRecords()
    >>> records.append({"time/total_timesteps": 8, "rollout/ep_rew_mean": [1.0, None]})
    >>> records[-1]
    {'time/total_timesteps': 8, 'rollout/ep_rew_mean': [1.0, None]}
    """

    def __init__(self) -> None:
        self._layouts: list[Layout] = []
        self._starts: list[int] = []
        self._blocks: list[array[float]] = []
        self._count = 0

    def append(self, record: Record) -> None:
        layout = layout_of(record)
        if not self._layouts or self._layouts[-1] != layout:
            self._layouts.append(layout)
            self._starts.append(self._count)
            self._blocks.append(array("d"))
        for value in record.values():
            values = value if isinstance(value, list) else [value]
            self._blocks[-1].extend(math.nan if one is None else one for one in values)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def _read(self, index: int) -> Record:
        block = bisect_left(self._starts, index + 1) - 1
        layout = self._layouts[block]
        width = sum(1 if length is None else length for _, length, _ in layout)
        position = (index - self._starts[block]) * width
        record: Record = {}
        for name, length, whole in layout:
            numbers = self._blocks[block][position : position + (1 if length is None else length)]
            values = [None if math.isnan(one) else int(one) if whole else one for one in numbers]
            record[name] = values[0] if length is None else values
            position += len(numbers)
        return record


def copy_of(record: Record) -> Record:
    """A copy that a logger or a callback may change."""
    return {name: value.copy() if isinstance(value, list) else value for name, value in record.items()}


Layout = tuple[tuple[str, int | None, bool], ...]
"""The name of each metric, the length of its list (None for a number), and whether it holds whole numbers."""


def layout_of(record: Record) -> Layout:
    def is_whole(value: Any) -> bool:
        values = [one for one in (value if isinstance(value, list) else [value]) if one is not None]
        return bool(values) and all(isinstance(one, int) for one in values)

    return tuple(
        (name, len(value) if isinstance(value, list) else None, is_whole(value)) for name, value in record.items()
    )


def read_evaluations(run_dir: Path) -> list[Record]:
    """The evaluations of a run, which are records too; empty if there are none."""
    path = run_dir / EVALUATIONS_FILE
    return list(FileRecords.of(path)) if path.exists() else []


def to_line(record: Record) -> bytes:
    """A record as a line of `metrics.jsonl`."""
    return (json.dumps(record, allow_nan=False) + "\n").encode()


def parse_record(line: bytes) -> Record:
    """Read a line of a file of records; raise a ValueError if it is not a JSON object of numbers with its step."""
    try:
        record = json.loads(str(line, "utf-8"))
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and record.keys() == {"step", "returns"}:  # an evaluation of an earlier version
        record = {STEP: record["step"], EVALUATION_RETURN: record["returns"]}
    if not isinstance(record, dict) or not isinstance(record.get(STEP), int):
        raise ValueError(f"not a JSON object with {STEP}")
    for name, value in record.items():
        if not all(map(_is_number, value if isinstance(value, list) else [value])):
            raise ValueError(f"{name[:99]} is {str(value)[:40]}, not a number or a list of numbers")
    return record


def _is_number(value: Any) -> bool:
    kind = type(value)
    return value is None or kind is float or (kind is int and -(2**63) <= value < 2**63) or kind is bool


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    try:
        with open_regular(path) as file:
            yield file
    except OSError as error:
        raise TrustaxError(f"could not read {path}: {error.strerror or error}") from error
