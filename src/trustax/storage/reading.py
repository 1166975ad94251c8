"""Reads files that may come from anyone: only regular files, and only up to a size limit.

A link to an endless device or a named pipe in place of a file is refused; neither fills the memory nor blocks.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from trustax.errors import TrustaxError

JSON_LIMIT = 64 * 2**20
LINE_LIMIT = 64 * 2**20


def open_regular(path: Path, follow_links: bool = True) -> BinaryIO:
    """Open a regular file for reading; raise an OSError if it cannot be opened, and a TrustaxError if it is another."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:  # a null byte in the path
        raise TrustaxError(f"{path!r}: {error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TrustaxError(f"{path}: not a regular file")
    return os.fdopen(descriptor, "rb")


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
        raise TrustaxError(f"{path}: larger than {limit} bytes")
    return content


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """Read a JSON file; raise a ValueError or RecursionError if it is not one."""
    return json.loads(read_limited(path, limit))


def complete_lines(file: BinaryIO, path: Path, end: int, limit: int = LINE_LIMIT) -> Iterator[bytes]:
    """The lines of a file up to the position `end`, except an incomplete last one, which is still being written."""
    position = file.tell()
    while line := file.readline(limit + 1):
        position += len(line)
        if len(line) > limit:
            raise TrustaxError(f"{path}: a line is longer than {limit} bytes")
        if position > end or not line.endswith(b"\n"):
            return
        yield line
