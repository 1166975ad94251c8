"""Leases: protection against two writers on a file system that several machines share and that has no locks.

Attempt n to train a run creates the file `lease.n` in its folder, which only one process can do. A later attempt takes
the run over: the earlier one finds the later lease before its next write, and stops. A lease is not a lock: it does not
keep a process from starting, but it keeps an old one, which seemed dead, from overwriting the work of a new one.
"""

import contextlib
import json
import os
import re
import socket
import time
import uuid
from pathlib import Path

from trustax.errors import TrustaxError
from trustax.storage.reading import read_limited

SIZE_LIMIT = 4096


class Lease:
    """The lease of this process on a run's folder; `Lease.take` makes one.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> first, second = Lease.take(folder), Lease.take(folder)
    >>> second.check()
    >>> sorted(path.name for path in folder.iterdir())
    ['lease.1', 'lease.2']
    >>> second.release()
    >>> list(folder.iterdir())
    []
    """

    def __init__(self, folder: Path, number: int, content: bytes) -> None:
        self.number = number
        self._folder = folder
        self._content = content

    @classmethod
    def take(cls, folder: Path) -> "Lease":
        """Create the next lease of a folder."""
        content = new_content()
        number = max(_numbers(folder), default=0)
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                _write_new(_path(folder, number), content)
                return cls(folder, number, content)

    def check(self) -> None:
        """Raise an error if a later attempt has taken over the run, or has finished it and removed the leases."""
        later = [number for number in _numbers(self._folder) if number > self.number]
        if later:
            holder = describe(_content(_path(self._folder, max(later))))
            raise TrustaxError(f"{self._folder} was taken over by a later attempt{holder}; this one stops")
        if _content(_path(self._folder, self.number)) != self._content:
            raise TrustaxError(f"{self._folder} was taken over by a later attempt, which has ended; this one stops")

    def release(self) -> None:
        """Remove this lease and earlier ones, unless a later attempt has taken over the run."""
        with contextlib.suppress(OSError, TrustaxError):
            self.check()
            for number in sorted(number for number in _numbers(self._folder) if number <= self.number):
                _path(self._folder, number).unlink()


def new_content() -> bytes:
    """The content of a new lease: this process, the time, and an id that no other lease has."""
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "time": time.time(), "id": uuid.uuid4().hex}
    return json.dumps(holder).encode()


def is_lease(name: str) -> bool:
    """Whether a file is a lease, by its name.

    >>> is_lease("lease.12"), is_lease("lease.txt")
    (True, False)
    """
    return re.fullmatch(r"lease\.[1-9][0-9]{0,8}", name) is not None


def has_leases(folder: Path) -> bool:
    return bool(_numbers(folder))


def holder_of(folder: Path) -> str | None:
    """The host of the newest lease; None if there is no lease."""
    with contextlib.suppress(TrustaxError):
        numbers = _numbers(folder)
        return host_of(_content(_path(folder, max(numbers)))) if numbers else None
    return None


def host_of(content: bytes | None) -> str | None:
    """The host in the content of a lease; None if it cannot be read."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return str(json.loads(content or b"")["host"])[:60]
    return None


def describe(content: bytes | None) -> str:
    """The process that holds a lease, from the content of the lease; empty if it cannot be read."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        holder = json.loads(content or b"")
        return f" (PID {int(holder['pid'])} on {str(holder['host'])[:60]!r})"
    return ""


def _path(folder: Path, number: int) -> Path:
    return folder / f"lease.{number}"


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be read: {error.strerror or error}") from error
    return [int(name.removeprefix("lease.")) for name in names if is_lease(name)]


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that must not exist, and wait until it is on the disk."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileExistsError:
        raise
    except OSError as error:
        raise TrustaxError(f"{path} cannot be written: {error.strerror or error}") from error


def _content(path: Path) -> bytes | None:
    try:
        return read_limited(path, SIZE_LIMIT)
    except OSError:
        return None
