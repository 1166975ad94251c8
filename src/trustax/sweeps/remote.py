"""Runs the worker of a job on another node, inside a task of Ray or SLURM.

The processes of Ray and SLURM import this file, but not JAX, which only the worker needs.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from trustax.runtime.cores import CORES_VARIABLE
from trustax.runtime.interrupt import EXIT_CODE

STDERR_LIMIT = 65_536
SECONDS_TO_SAVE = 60.0


@dataclass
class RemoteWorker:
    """A worker in a subprocess of the task. If the task dies, the worker notices and exits."""

    line: str
    """the job"""
    module: str
    cpus: int
    settings: dict[str, str] = field(default_factory=dict)
    """additional environment variables"""
    _process: Any = field(default=None, repr=False)

    def run(self) -> tuple[int, bytes]:
        """Train the job to its end; returns the exit code and the end of stderr.

        A worker that another process stopped has saved, so it is started again.
        """
        while True:
            code, stderr = self._run_once()
            if code not in (EXIT_CODE, -signal.SIGTERM):
                return code, stderr

    def stop(self) -> None:
        """Let the worker save and exit."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(SECONDS_TO_SAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _run_once(self) -> tuple[int, bytes]:
        environment = os.environ | {CORES_VARIABLE: str(self.cpus)} | self.settings
        with tempfile.TemporaryFile() as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
            try:
                with contextlib.suppress(BrokenPipeError):  # if the worker has already died, its exit code says why
                    os.write(self._process.stdin.fileno(), f"{self.line}\n".encode())
                code = self._process.wait()
            except BaseException:  # the task is being canceled
                self.stop()
                raise
            finally:
                self._process.stdin.close()
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_LIMIT))
            return code, stderr.read()


def run_worker(line: str, module: str, cpus: int, settings: dict[str, str]) -> tuple[int, bytes]:
    """The function that a Ray task calls. A canceled task raises KeyboardInterrupt here, and the worker saves."""
    return RemoteWorker(line, module, cpus, settings).run()


class WorkerTask:
    """The object that a SLURM job calls. submitit calls `checkpoint` at preemption and at the time limit."""

    def __init__(self) -> None:
        self._worker: RemoteWorker | None = None

    def __call__(self, line: str, worker: str, cpus: int) -> tuple[int, bytes]:
        self._worker = RemoteWorker(line, worker, cpus)
        return self._worker.run()

    def checkpoint(self, line: str, worker: str, cpus: int) -> Any:
        """Save, and queue the same job again."""
        from submitit.helpers import DelayedSubmission

        if self._worker is not None:
            self._worker.stop()
        return DelayedSubmission(WorkerTask(), line, worker, cpus)
