"""Files that are written whole or not at all, and values as strict JSON can hold them."""

import math
import os
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError


def write_atomic(path: Path, text: str) -> None:
    """Write a text in the place of the one that is there, folders included.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "notes" / "one.txt"
    >>> write_atomic(path, "two lines\\n")
    >>> [file.name for file in path.parent.iterdir()]
    ['one.txt']
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        os.replace(unfinished, path)
    except OSError as error:
        raise TrustaxError(f"{path} cannot be written: {error.strerror or error}") from error


def jsonable(value: Any) -> Any:
    """The same value out of lists, dictionaries and what JSON knows; infinity as the text that `float` reads.

    >>> jsonable({"low": (-math.inf, 0.5), "count": 2})
    {'low': ['-inf', 0.5], 'count': 2}
    """
    if isinstance(value, dict):
        return {name: jsonable(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [jsonable(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


class AppendedFile:
    """A file that grows, unbuffered: what was appended survives a kill, and an error shows at once."""

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

    def close(self) -> None:
        self._file.close()
