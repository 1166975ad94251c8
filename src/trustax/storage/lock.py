"""A lock that lets only one process at a time train a run. The system releases it when the process ends or is killed.

The lock is a hidden file beside the run's folder. The file is never deleted: otherwise two processes could lock two
different files with the same name. On systems and file systems without such locks (Windows, some network drives),
nothing is locked.
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
"""Seconds to wait for the lock: enough for a worker of a sweep to notice that its parent was killed."""


@contextlib.contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of a run's folder; raise an error if another process still holds it after `patience` seconds."""
    real = Path(os.path.realpath(folder))  # the same lock for every path to the folder, such as "."
    path = real.with_name(f".{real.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be written: {error.strerror or error}") from error
    with file:
        deadline = time.monotonic() + patience
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                raise TrustaxError(f"{folder} is being trained by another process{_holder(file)}; wait until it ends")
            time.sleep(SECONDS_BETWEEN_TRIES)
        with contextlib.suppress(OSError):  # the PID is only informative, so a full disk is no problem
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


def _try_lock(file: IO[str]) -> bool:
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
    pid = file.read(20).strip()
    return f" (PID {pid})" if pid.isdecimal() else ""
