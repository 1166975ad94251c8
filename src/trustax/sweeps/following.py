"""Follow the runs of a sweep: their newest records, and the nodes that train them."""

import contextlib
import time
from typing import NamedTuple

from trustax.ops.metrics import STEP, Record
from trustax.storage.lease import holder_of
from trustax.storage.object_store import StoredRun, StoreError
from trustax.sweeps.worker import Job, last_record, newest_record

SECONDS = 5.0
"""Seconds between two reads of a run in an object store."""


class Status(NamedTuple):
    record: Record | None = None
    node: str | None = None
    """the host that trains the run; None if it is this machine or none"""
    time: float = float("-inf")

    @property
    def steps(self) -> int:
        """Environment steps of each seed so far."""
        return 0 if self.record is None else int(self.record[STEP])


class Follower:
    """Reads how far the runs are, from their folders or, less often, from their object stores."""

    def __init__(self) -> None:
        self._seen: dict[str, Status] = {}

    def status(self, job: Job, now: bool = True) -> Status:
        """The state of a run; without `now`, a run in an object store may have changed since."""
        if job.store is None:
            return Status(last_record(job.folder), holder_of(job.folder) if job.lease else None)
        seen = self._seen.get(job.store, Status())
        # With many runs, all reads together take at most a part of the time.
        if now or time.monotonic() - seen.time > max(SECONDS, len(self._seen)):
            with contextlib.suppress(StoreError):  # the network may be down for a while
                content, host = StoredRun(job.store).progress()
                seen = Status(newest_record(content), host if job.lease else None)
            seen = self._seen[job.store] = seen._replace(time=time.monotonic())
        return seen
