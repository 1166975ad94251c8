"""Runs the jobs of a sweep on an engine, shows their progress, and continues the ones that were interrupted.

A failing run does not stop the others. On Ctrl-C or SIGTERM every worker saves and stops; if this process is killed,
its workers exit by themselves. In both cases the next sweep over the same runs resumes them. The result is bitwise
identical if the environment can be saved and a run gets as many cores as before; on a different number of devices,
seeds round differently.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console

from trustax.errors import TrustaxError
from trustax.ops.metrics import Record
from trustax.runtime.interrupt import Interrupted, InterruptGuard
from trustax.sweeps.engines import Attempt, SweepEngine
from trustax.sweeps.following import Follower
from trustax.sweeps.local import LocalEngine
from trustax.sweeps.progress import SweepProgress
from trustax.sweeps.worker import Job

POLL_SECONDS = 0.25


class Failure(NamedTuple):
    """A run that failed, and the reason in one line."""

    job: Job
    reason: str


def run_jobs(
    jobs: Sequence[Job],
    engine: SweepEngine | None = None,
    title: str = "all runs",
    worker: str = "trustax.sweeps.worker",
    console: Console | None = None,
) -> list[Failure]:
    """Train all jobs and return the failures.

    `worker` is the module that each process runs. It calls `trustax.sweeps.worker.work`, optionally with a callback for
    finished runs. The engine is by default this machine, with one job on each core.
    """
    _require_unique(jobs)
    follower = Follower()
    done = {job.title: follower.status(job).steps for job in jobs}
    engine = engine or LocalEngine()
    with InterruptGuard() as guard, engine, SweepProgress(title, jobs, done, console) as progress:
        engine.prepare(len(jobs))
        pool = _Pool(jobs, engine, worker, progress, follower)
        try:
            pool.run(guard)
        finally:
            pool.close()
    if pool.num_finished + len(pool.failures) < len(jobs):
        raise Interrupted(
            f"stopped and saved; {pool.num_finished} of {len(jobs)} runs are finished; run the same command to continue"
        )
    return pool.failures


class _Pool:
    """The waiting jobs and the running attempts."""

    def __init__(
        self, jobs: Sequence[Job], engine: SweepEngine, worker: str, progress: SweepProgress, follower: Follower
    ) -> None:
        self.failures: list[Failure] = []
        self.num_finished = 0
        self._waiting = deque(jobs)
        self._engine = engine
        self._worker = worker
        self._progress = progress
        self._follower = follower
        self._attempts: list[Attempt] = []

    def run(self, guard: InterruptGuard) -> None:
        while self._attempts or (self._waiting and not guard.requested):
            if guard.requested:
                for attempt in self._attempts:
                    attempt.stop()
            else:
                self._start_jobs()
            time.sleep(POLL_SECONDS)
            self._poll()

    def close(self) -> None:
        for attempt in self._attempts:
            attempt.close()

    def _start_jobs(self) -> None:
        while self._waiting and self._engine.has_room():
            attempt = self._engine.start(self._waiting.popleft(), self._worker)
            self._attempts.append(attempt)
            if not attempt.job.lease:
                self._progress.start(attempt.job, self._follower.status(attempt.job, now=False).steps)

    def _poll(self) -> None:
        for attempt in list(self._attempts):
            ended = attempt.ended()  # checked before reading, so that the last record is not missed
            seen = self._follower.status(attempt.job, now=ended)
            if not self._progress.is_shown(attempt.job):
                if not (ended or seen.node):
                    continue  # the job waits for a node
                self._progress.start(attempt.job, seen.steps)
            if seen.record is not None:
                self._progress.update(attempt.job, seen.record, seen.node)
            if ended:
                self._attempts.remove(attempt)
                self._finish(attempt, seen.record)
                attempt.close()
        self._progress.refresh()

    def _finish(self, attempt: Attempt, record: Record | None) -> None:
        if attempt.was_stopped():
            self._progress.stop(attempt.job)
            return
        reason = attempt.failure()
        self._progress.end(attempt.job, record, reason)
        if reason is None:
            self.num_finished += 1
        else:
            self.failures.append(Failure(attempt.job, reason))


def _require_unique(jobs: Sequence[Job]) -> None:
    for name in ("title", "folder"):
        values = [getattr(job, name) for job in jobs]
        for value in values:
            if values.count(value) > 1:
                raise TrustaxError(f"two runs of the sweep have the same {name} {value}; give each run its own")
