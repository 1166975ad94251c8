"""Runs many jobs in parallel processes, each on its own share of the cores, and resumes the ones that were interrupted.

A failing run does not stop the others. On Ctrl-C or SIGTERM every worker saves and stops; if this process is killed,
its workers exit by themselves. In both cases the next sweep over the same runs resumes them. The result is bitwise
identical if the environment can be saved and a run gets as many cores as before; on a different number of devices,
seeds round differently.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO, NamedTuple

from rich.console import Console

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.runtime.cores import available_cores
from trustax.runtime.interrupt import EXIT_CODE, Interrupted, InterruptGuard
from trustax.sweep.progress import SweepProgress
from trustax.sweep.worker import Job, last_record

POLL_SECONDS = 0.25


class Failure(NamedTuple):
    """A run that failed, and the reason in one line."""

    job: Job
    reason: str


def sweep(
    jobs: Sequence[Job],
    num_workers: int | None = None,
    title: str = "all runs",
    worker: str = "trustax.sweep.worker",
    console: Console | None = None,
) -> list[Failure]:
    """Train all jobs and return the failures.

    `worker` is the module that each process runs. It calls `trustax.sweep.worker.work`, optionally with a callback for
    finished runs. `num_workers` defaults to the number of cores.
    """
    _require_unique(jobs)
    shares = divide_cores(available_cores(), max(1, min(num_workers or len(available_cores()), len(jobs))))
    done = {job.title: _completed_steps(job) for job in jobs}
    with InterruptGuard() as guard, SweepProgress(title, jobs, done, console) as progress:
        pool = _Pool(jobs, shares, worker, progress)
        try:
            pool.run(guard)
        finally:
            pool.kill()
    if pool.num_finished + len(pool.failures) < len(jobs):
        raise Interrupted(
            f"stopped and saved; {pool.num_finished} of {len(jobs)} runs are finished; run the same command to continue"
        )
    return pool.failures


def divide_cores(cores: Sequence[int], count: int) -> list[list[int]]:
    """Divide the cores among `count` workers; with more workers than cores, some workers share a core.

    >>> divide_cores([0, 1, 2, 3, 4], 2), divide_cores([0, 1], 3)
    ([[0, 1], [2, 3, 4]], [[0], [1], [0]])
    """
    if count > len(cores):
        return [[cores[number % len(cores)]] for number in range(count)]
    bounds = [number * len(cores) // count for number in range(count + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(bounds)]


class _Worker:
    """A process that trains one job."""

    def __init__(self, job: Job, share: list[int], module: str, is_only_worker: bool) -> None:
        self.job = job
        self.share = share
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._stopping = False
        # Processes can share a GPU only if the first one does not preallocate all of its memory.
        settings = {} if is_only_worker else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        with _pinned(share):
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=settings | os.environ,
                start_new_session=True,  # the terminal sends Ctrl-C to this process only, which forwards it
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # if the worker has already died, its exit code says why
            os.write(self._process.stdin.fileno(), f"{job.to_line()}\n".encode())

    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the worker to save and exit. Later calls do nothing."""
        if not self._stopping:
            self._stopping = True
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._stderr.close()

    @property
    def was_stopped(self) -> bool:
        return self._stopping and self._process.returncode in (EXIT_CODE, -signal.SIGTERM)

    def failure(self) -> str | None:
        """The reason for the failure in one line; None if the run has finished."""
        code = self._process.returncode
        if code == 0:
            return None
        self._stderr.seek(0)
        stderr = self._stderr.read()
        lines = stderr.decode(errors="replace").strip().splitlines() or ["the worker printed nothing"]
        if code == 2:
            return lines[-1]
        if code == EXIT_CODE or code == -signal.SIGTERM:
            return "stopped by another process; run the same command to continue"
        log = self.job.folder.with_name(f"{self.job.folder.name}.log")
        with contextlib.suppress(OSError):
            log.write_bytes(stderr)
        if code < 0:
            why = ", perhaps because memory ran out" if code == -signal.SIGKILL else ""
            return f"killed by {signal.Signals(-code).name}{why}; see {log}"
        return f"{lines[-1]}; see {log}"


class _Pool:
    """The waiting jobs and the running workers."""

    def __init__(self, jobs: Sequence[Job], shares: list[list[int]], module: str, progress: SweepProgress) -> None:
        self.failures: list[Failure] = []
        self.num_finished = 0
        self._waiting = deque(jobs)
        self._free_shares = shares
        self._is_only_worker = len(shares) == 1
        self._module = module
        self._progress = progress
        self._workers: list[_Worker] = []

    def run(self, guard: InterruptGuard) -> None:
        while self._workers or (self._waiting and not guard.requested):
            if guard.requested:
                for worker in self._workers:
                    worker.stop()
            else:
                self._start_workers()
            time.sleep(POLL_SECONDS)
            self._poll()

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _start_workers(self) -> None:
        while self._waiting and self._free_shares:
            job = self._waiting.popleft()
            self._progress.start(job, _completed_steps(job))
            self._workers.append(_Worker(job, self._free_shares.pop(0), self._module, self._is_only_worker))

    def _poll(self) -> None:
        for worker in list(self._workers):
            ended = worker.ended()  # checked before reading, so that the last record is not missed
            record = last_record(worker.job.folder)
            if record is not None:
                self._progress.update(worker.job, record)
            if ended:
                self._workers.remove(worker)
                self._free_shares.append(worker.share)
                self._finish(worker, record)
                worker.close()
        self._progress.refresh()

    def _finish(self, worker: _Worker, record: Record | None) -> None:
        if worker.was_stopped:
            self._progress.stop(worker.job)
            return
        reason = worker.failure()
        self._progress.end(worker.job, record, reason)
        if reason is None:
            self.num_finished += 1
        else:
            self.failures.append(Failure(worker.job, reason))


@contextlib.contextmanager
def _pinned(share: Sequence[int]) -> Iterator[None]:
    """Pin processes that start inside this context to these cores, on systems that support it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, share)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _completed_steps(job: Job) -> int:
    record = last_record(job.folder)
    return 0 if record is None else int(record[STEP])


def _require_unique(jobs: Sequence[Job]) -> None:
    for name in ("title", "folder"):
        values = [getattr(job, name) for job in jobs]
        for value in values:
            if values.count(value) > 1:
                raise TrustaxError(f"two runs of the sweep have the same {name} {value}; give each run its own")
