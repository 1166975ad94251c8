"""The local engine: processes on this machine, each on its own share of the cores."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import TracebackType
from typing import IO

from trustax.runtime.cores import available_cores
from trustax.runtime.interrupt import EXIT_CODE
from trustax.sweeps.worker import Job, failure_of


class LocalEngine:
    """Runs up to `num_workers` jobs at a time; by default one on each core."""

    def __init__(self, num_workers: int | None = None) -> None:
        self._num_workers = num_workers
        self._free_shares: list[list[int]] = []
        self._is_only_worker = False

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def prepare(self, num_jobs: int) -> None:
        """Divide the cores. With fewer jobs than cores, a job gets several of them."""
        cores = available_cores()
        self._free_shares = divide_cores(cores, max(1, min(self._num_workers or len(cores), num_jobs)))
        self._is_only_worker = len(self._free_shares) == 1

    def has_room(self) -> bool:
        return bool(self._free_shares)

    def start(self, job: Job, worker: str) -> "LocalAttempt":
        return LocalAttempt(job, self._free_shares, worker, self._is_only_worker)


class LocalAttempt:
    """A process that trains one job. It takes a share of the cores and returns it when it is closed."""

    def __init__(self, job: Job, shares: list[list[int]], worker: str, is_only_worker: bool) -> None:
        self.job = job
        self._shares = shares
        self._share = shares.pop(0)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._stopping = False
        # Processes can share a GPU only if the first one does not preallocate all of its memory.
        settings = {} if is_only_worker else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        with _pinned(self._share):
            self._process = subprocess.Popen(
                [sys.executable, "-m", worker],
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
        if not self._stopping:
            self._stopping = True
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._stderr.close()
        self._shares.append(self._share)

    def was_stopped(self) -> bool:
        return self._stopping and self._process.returncode in (EXIT_CODE, -signal.SIGTERM)

    def failure(self) -> str | None:
        self._stderr.seek(0)
        return failure_of(self.job, self._process.returncode, self._stderr.read())


def divide_cores(cores: Sequence[int], count: int) -> list[list[int]]:
    """Divide the cores among `count` workers; with more workers than cores, some workers share a core.

    >>> divide_cores([0, 1, 2, 3, 4], 2), divide_cores([0, 1], 3)
    ([[0, 1], [2, 3, 4]], [[0], [1], [0]])
    """
    if count > len(cores):
        return [[cores[number % len(cores)]] for number in range(count)]
    bounds = [number * len(cores) // count for number in range(count + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(bounds)]


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
