"""Reads untrusted files: only regular files, and only up to a size limit.

A link to an endless device or a named pipe in place of a file is refused; neither fills the memory nor blocks.
"""

import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError

NOT_REGULAR = "not a regular file"
JSON_LIMIT = 64 * 2**20
LINE_LIMIT = 64 * 2**20
TAIL = 65_536
"""How much of the end of a file of lines to read first."""
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
    TrustaxError,
)
"""The exceptions that reading a damaged or foreign file may raise."""


def open_regular(path: Path, follow_links: bool = True) -> io.BufferedReader:
    """Open a regular file for reading; raise an OSError if it is another or cannot be opened."""
    try:
        if not follow_links and path.is_symlink():
            raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a null byte in the path
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    return open(descriptor, "rb")


def read_limited(path: Path, limit: int, follow_links: bool = True) -> bytes:
    """Read a regular file of at most `limit` bytes.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "four"
    >>> path.write_bytes(b"four")
    4
    >>> read_limited(path, limit=4)
    b'four'
    """
    with open_regular(path, follow_links) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > limit else file.read(limit + 1)
    if max(size, len(content)) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", str(path))
    return content


def end_of_lines(read: Callable[[int], bytes], size: int, tail: int = TAIL) -> bytes:
    """The end of a file of lines, from `read(start)`: the last `tail` bytes, or more if they hold no complete line.

    >>> text = b"a long line\\nanother\\nnot comple"
    >>> end_of_lines(lambda start: text[start:], len(text), tail=12)
    b' line\\nanother\\nnot comple'
    """
    while (content := read(max(0, size - tail))).count(b"\n") < 2 and tail < min(size, LINE_LIMIT):
        tail *= 2
    return content


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON file; raise a ValueError or RecursionError if it is not one."""
    return json.loads(str(read_limited(path, limit), "utf-8"))


def complete_lines(file: io.BufferedReader, end: int, limit: int = LINE_LIMIT) -> Iterator[bytes]:
    """The lines of a file up to the position `end`, except an incomplete last one, which is still being written."""
    position = file.tell()
    while line := file.readline(limit + 1):
        position += len(line)
        if len(line) > limit:
            raise OSError(errno.EFBIG, f"a line is longer than {limit} bytes")
        if position > end or not line.endswith(b"\n"):
            return
        yield line
