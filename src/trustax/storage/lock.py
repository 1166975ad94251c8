"""One process at a time trains a run: a lock that the system takes back when its holder dies, however it dies.

It lies beside the run's folder as a hidden file, which stays: to delete it would let two processes lock two files of
one name. Where the system or the file system has no such locks (Windows, some network drives) nothing is locked.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from trustax.errors import TrustaxError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SECONDS_BETWEEN_TRIES = 0.1
PATIENCE = 5.0
"""Seconds in which a worker of a sweep notices that its parent was killed."""


@contextlib.contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a run's folder; refuse if another process still holds it after `patience` seconds."""
    real = Path(os.path.realpath(folder))  # by whatever name it is called, "." for example
    path = real.with_name(f".{real.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be written: {error.strerror or error}") from error
    with file:
        give_up = time.monotonic() + patience
        while not _taken(file):
            if time.monotonic() >= give_up:
                raise TrustaxError(f"{folder} is being trained by another process{_holder(file)}; wait for its end")
            time.sleep(SECONDS_BETWEEN_TRIES)
        with contextlib.suppress(OSError):  # the number is for people, and a full disk no reason to stop
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


def _taken(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    number = file.read(20).strip()
    return f" ({number})" if number.isdecimal() else ""
