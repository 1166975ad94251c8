"""A lock that lets only one process at a time train a run. The system releases it when the process ends or is killed.

The run's folder itself is locked: the lock stays with a folder that is renamed, and no lock file is left behind.
Systems and file systems without such locks (Windows, some network drives) get a lease instead.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from trustax.errors import TrustaxError
from trustax.storage.lease import Lease, has_leases

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SECONDS_BETWEEN_TRIES = 0.1
PATIENCE = 5.0
"""Seconds to wait for the lock: enough for a worker of a sweep to notice that its parent was killed."""


class Claim:
    """The right to write to a run's folder."""

    def __init__(self, folder: Path, descriptor: int | None, lease: Lease | None) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._lease = lease

    def check(self) -> None:
        """Raise an error if the folder was moved or deleted, or if another process has taken over the run."""
        if self._descriptor is not None and not _is_at(self._folder, self._descriptor):
            raise TrustaxError(
                f"{self._folder} was moved or deleted during training; nothing more is written: resume the run where "
                "its folder is now"
            )
        if self._lease is not None:
            self._lease.check()


@contextlib.contextmanager
def locked(folder: Path, patience: float = PATIENCE, lease: bool = False) -> Iterator[Claim]:
    """Hold the lock of a run's folder; raise an error if another process still holds it after `patience` seconds.

    The folder is created if needed, and removed again if it stays empty. With `lease`, or without locks on the file
    system, the folder also gets a lease. A lease takes the run over from an earlier lease even if the earlier process
    still holds the lock: it may hang, or be on a node that seemed dead, and it can no longer write.
    """
    with contextlib.ExitStack() as stack:
        created = _create(folder)
        descriptor = None if fcntl is None else _open_and_lock(folder, time.monotonic() + patience, take_over=lease)
        if descriptor is not None:
            stack.callback(_release, descriptor, os.getpid())
        if created:
            stack.callback(_remove_if_empty, folder)
        own = Lease.take(folder) if lease or descriptor is None else None
        if own is not None:
            stack.callback(own.release)
        yield Claim(folder, descriptor, own)


def _create(folder: Path) -> bool:
    """Create the folder, and return whether it did not exist."""
    try:
        if folder.is_dir():
            return False
        if folder.exists():
            raise TrustaxError(f"{folder} exists and is not a run folder; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be written: {error.strerror or error}") from error
    return True


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _open_and_lock(folder: Path, deadline: float, take_over: bool = False) -> int | None:
    """The descriptor of the locked folder; None if the file system has no locks.

    With `take_over`, a folder that another process has locked and has a lease on is opened without the lock.
    """
    while True:
        descriptor = _open_folder(folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(folder, descriptor):
                return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                if take_over and has_leases(folder):
                    return descriptor
                holder = _holder(descriptor)
                os.close(descriptor)
                if holder == os.getpid():
                    raise TrustaxError(f"{folder} is being trained by this process; end that run first") from None
                pid = "" if holder is None else f" (PID {holder})"
                raise TrustaxError(f"{folder} is being trained by another process{pid}; wait until it ends") from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return None
        os.close(descriptor)
        time.sleep(SECONDS_BETWEEN_TRIES)


def _release(descriptor: int, pid: int) -> None:
    """Unlock a folder in the process that locked it; a process that it has forked would keep it locked."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _open_folder(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)  # another process may have removed it in the meantime
        return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be read: {error.strerror or error}") from error


def _is_at(folder: Path, descriptor: int) -> bool:
    """Whether an open folder is still found at its path."""
    try:
        return os.path.samestat(os.stat(folder), os.fstat(descriptor))
    except OSError:
        return False


def _holder(descriptor: int) -> int | None:
    """The PID of the process that holds the lock, if the system tells."""
    inode = f":{os.fstat(descriptor).st_ino}"
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1:2] == ["FLOCK"] and fields[5].endswith(inode):
                return int(fields[4])
    return None
