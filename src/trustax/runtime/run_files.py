"""The files of a run while it trains: its folder, the claim to write to it, and its copy in an object store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trustax.errors import TrustaxError
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState
from trustax.storage.lock import Claim, locked
from trustax.storage.mirror import Mirror
from trustax.storage.run_directory import RunDirectory


class RunFiles:
    """Saves a run to the folder that it has claimed, and copies it to its store."""

    def __init__(self, directory: RunDirectory, claim: Claim | None, mirror: Mirror) -> None:
        self.directory = directory
        self.has_unsaved = False
        """whether there is a complete iteration that is not saved"""
        self._claim = claim
        self._mirror = mirror

    def check_claim(self) -> None:
        """Raise an error if the folder was moved, or if a later attempt has taken over the run."""
        if self._claim is not None:
            self._claim.check()

    def require_sound(self, error: str | None) -> None:
        """Raise an error, if there is one, that also names the newest valid checkpoint."""
        if error is not None:
            raise TrustaxError(error + self.directory.checkpoint_hint())

    def save(self, state: RunState, before: Callable[[], None]) -> Path | None:
        """Call `before`, save a state, and return the path of the checkpoint; None without a folder."""
        self.has_unsaved = False
        self.check_claim()
        saved = self.directory.save(state, before=before)
        self._mirror.checkpoint()
        return saved


@contextmanager
def claimed(mirror: Mirror, group: Group, lease: bool) -> Iterator[Claim | None]:
    """Download a run from its store, if it has one, and claim its folder; of several processes, process 0 does."""
    with mirror:
        if mirror.folder is None or not group.is_first:
            yield None
            return
        with locked(mirror.folder, lease=lease) as claim:
            yield claim
