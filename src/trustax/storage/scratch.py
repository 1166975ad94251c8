"""Temporary folders for runs that are in an object store.

A process locks its folder, and the system releases the lock however the process ends. So a later process on the same
machine tells the leftovers of a killed one from a folder in use, and removes them.
"""

import atexit
import contextlib
import os
import shutil
import socket
import tempfile
import uuid
from pathlib import Path

from trustax.errors import TrustaxError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

KEPT = ".kept"
"""The file in a folder that outlives its process."""


class ScratchFolder:
    """A temporary folder with the name `name`, which `create` makes and which is removed when the process ends.

    The removal is registered with `atexit` as soon as the object is made, so that what is registered later, and may
    still write to the folder, runs before it.

    >>> scratch = ScratchFolder("run")
    >>> scratch.folder.name, scratch.folder.exists()
    ('run', False)
    """

    def __init__(self, name: str) -> None:
        self._parent = Path(tempfile.gettempdir()) / f"{_prefix()}{uuid.uuid4().hex}"
        self.folder = self._parent / name
        atexit.register(self.remove)

    def create(self) -> None:
        """Make the folder, and remove those of processes that were killed."""
        remove_leftovers()
        unlocked = self._parent.with_name(f".{self._parent.name}")  # no other process takes it for a leftover
        try:
            unlocked.mkdir()
            self._descriptor = _lock(unlocked)
            unlocked.rename(self._parent)
            self.folder.mkdir()
        except OSError as error:
            raise TrustaxError(f"{self._parent} cannot be written: {error.strerror or error}") from error

    def keep(self) -> None:
        """Let the folder outlive this process."""
        atexit.unregister(self.remove)
        with contextlib.suppress(OSError):
            (self._parent / KEPT).touch()

    def remove(self) -> None:
        shutil.rmtree(self._parent, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the folders of processes on this machine that have ended without removing them."""
    for path in Path(tempfile.gettempdir()).glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):  # it belongs to another user, or was removed in the meantime
            if (path / KEPT).exists() or (descriptor := _lock(path)) is None:
                continue
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _prefix() -> str:
    """The names on this machine: another one, whose locks are not seen here, may share the folder."""
    return f"trustax-{''.join(c if c.isalnum() else '-' for c in socket.gethostname())}-"


def _lock(folder: Path) -> int | None:
    """The descriptor of a locked folder, open until the process ends; None if it cannot be locked."""
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has locked it, or the file system has no locks
        os.close(descriptor)
        return None
    return descriptor
