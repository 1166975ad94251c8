"""Atomic and append-only files, and the conversion of values to strict JSON."""

import contextlib
import math
import os
import uuid
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError


def write_atomic(path: Path, text: str) -> None:
    """Write a text file atomically, replacing an existing one; create its folder if needed.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "notes" / "one.txt"
    >>> write_atomic(path, "two lines\\n")
    >>> [file.name for file in path.parent.iterdir()]
    ['one.txt']
    """
    write_bytes_atomic(path, text.encode("utf-8"))


def write_bytes_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one; create its folder if needed."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise TrustaxError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def jsonable(value: Any) -> Any:
    """Convert a value to lists, dictionaries and JSON scalars; infinity becomes a string that `float` can parse.

    >>> jsonable({"low": (-math.inf, 0.5), "count": 2})
    {'low': ['-inf', 0.5], 'count': 2}
    """
    if isinstance(value, dict):
        return {name: jsonable(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [jsonable(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


class AppendOnlyFile:
    """An append-only file without buffering: appended content survives a kill, and errors are raised immediately."""

    def __init__(self, path: Path):
        self._path = path
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise TrustaxError(f"could not open {path}: {error.strerror or error}") from error

    def append(self, content: bytes) -> None:
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise TrustaxError(f"could not write to {self._path}: {error.strerror or error}") from error

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise TrustaxError(f"could not write to {self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        self._file.close()
