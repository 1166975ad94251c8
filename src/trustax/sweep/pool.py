"""Many runs in parallel processes: each on its own share of the cores, resumed where it stopped, whatever stopped it.

A run that fails stops no other. Ctrl-C and SIGTERM let every worker save and stop; when this process is killed, its
workers end by themselves. Either way the next sweep over the same runs goes on where they were: to the bit where the
environment can be saved and a run has as many cores as before, since seeds on other devices are rounded differently.
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
from trustax.sweep.progress import Overview
from trustax.sweep.worker import Job, last_record

SECONDS_BETWEEN_LOOKS = 0.25


class Failure(NamedTuple):
    """A run that could not be finished, and why, in one line."""

    job: Job
    reason: str


def sweep(
    jobs: Sequence[Job],
    num_workers: int | None = None,
    title: str = "all runs",
    worker: str = "trustax.sweep.worker",
    console: Console | None = None,
) -> list[Failure]:
    """Train all jobs, and say which of them failed.

    `worker` is the module that a process runs: it calls `trustax.sweep.worker.work`, perhaps with a function to call
    when the run has finished. There are as many workers as cores unless `num_workers` says otherwise.
    """
    _require_different(jobs)
    shares = shares_of(available_cores(), max(1, min(num_workers or len(available_cores()), len(jobs))))
    done = {job.title: _steps_done(job) for job in jobs}
    with InterruptGuard() as guard, Overview(title, jobs, done, console) as overview:
        pool = _Pool(jobs, shares, worker, overview)
        try:
            pool.run(guard)
        finally:
            pool.kill()
    if pool.num_finished + len(pool.failures) < len(jobs):
        raise Interrupted(
            f"stopped and saved; {pool.num_finished} of {len(jobs)} runs are finished; the same command goes on"
        )
    return pool.failures


def shares_of(cores: Sequence[int], count: int) -> list[list[int]]:
    """The cores divided among so many workers; where there are more workers than cores, some share one.

    >>> shares_of([0, 1, 2, 3, 4], 2), shares_of([0, 1], 3)
    ([[0, 1], [2, 3, 4]], [[0], [1], [0]])
    """
    if count > len(cores):
        return [[cores[number % len(cores)]] for number in range(count)]
    bounds = [number * len(cores) // count for number in range(count + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(bounds)]


class _Worker:
    """A process that trains one job."""

    def __init__(self, job: Job, share: list[int], module: str, alone: bool) -> None:
        self.job = job
        self.share = share
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._stopping = False
        # Several processes can share a GPU only if the first does not take all of its memory.
        settings = {} if alone else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        with _pinned(share):
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                env=settings | os.environ,
                start_new_session=True,  # the terminal's Ctrl-C is for us, who pass it on
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # where it has died already its exit code tells
            os.write(self._process.stdin.fileno(), f"{job.to_line()}\n".encode())

    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask it, once, to save and leave."""
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
        self._said.close()

    @property
    def was_stopped(self) -> bool:
        return self._stopping and self._process.returncode in (EXIT_CODE, -signal.SIGTERM)

    def failure(self) -> str | None:
        """Why it ended, in one line; None if its run has finished."""
        code = self._process.returncode
        if code == 0:
            return None
        self._said.seek(0)
        said = self._said.read()
        lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        if code == 2:
            return lines[-1]
        if code == EXIT_CODE or code == -signal.SIGTERM:
            return "stopped from outside; the same command goes on"
        log = self.job.folder.with_name(f"{self.job.folder.name}.log")
        with contextlib.suppress(OSError):
            log.write_bytes(said)
        if code < 0:
            why = ", perhaps for want of memory" if code == -signal.SIGKILL else ""
            return f"killed by {signal.Signals(-code).name}{why}; see {log}"
        return f"{lines[-1]}; see {log}"


class _Pool:
    """The jobs that wait and the workers that are at it."""

    def __init__(self, jobs: Sequence[Job], shares: list[list[int]], module: str, overview: Overview) -> None:
        self.failures: list[Failure] = []
        self.num_finished = 0
        self._waiting = deque(jobs)
        self._free = shares
        self._alone = len(shares) == 1
        self._module = module
        self._overview = overview
        self._workers: list[_Worker] = []

    def run(self, guard: InterruptGuard) -> None:
        while self._workers or (self._waiting and not guard.requested):
            if guard.requested:
                for worker in self._workers:
                    worker.stop()
            else:
                self._fill()
            time.sleep(SECONDS_BETWEEN_LOOKS)
            self._look()

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _fill(self) -> None:
        while self._waiting and self._free:
            job = self._waiting.popleft()
            self._overview.start(job, _steps_done(job))
            self._workers.append(_Worker(job, self._free.pop(0), self._module, self._alone))

    def _look(self) -> None:
        for worker in list(self._workers):
            ended = worker.ended()  # before its last record is read
            record = last_record(worker.job.folder)
            if record is not None:
                self._overview.update(worker.job, record)
            if ended:
                self._workers.remove(worker)
                self._free.append(worker.share)
                self._settle(worker, record)
                worker.close()
        self._overview.refresh()

    def _settle(self, worker: _Worker, record: Record | None) -> None:
        if worker.was_stopped:
            self._overview.leave(worker.job)
            return
        reason = worker.failure()
        self._overview.end(worker.job, record, reason)
        if reason is None:
            self.num_finished += 1
        else:
            self.failures.append(Failure(worker.job, reason))


@contextlib.contextmanager
def _pinned(share: Sequence[int]) -> Iterator[None]:
    """Processes that are started within this context stay on these cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, share)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _steps_done(job: Job) -> int:
    record = last_record(job.folder)
    return 0 if record is None else int(record[STEP])


def _require_different(jobs: Sequence[Job]) -> None:
    for name in ("title", "folder"):
        values = [getattr(job, name) for job in jobs]
        for value in values:
            if values.count(value) > 1:
                raise TrustaxError(f"two runs of the sweep have the {name} {value}; give each its own")
