"""The SLURM engine: all jobs in one job array, submitted through submitit.

A job that is preempted or reaches its time limit saves, is queued again and resumes.
"""

import contextlib
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from trustax.errors import TrustaxError
from trustax.sweeps.remote import WorkerTask
from trustax.sweeps.worker import Job, failure_of

try:
    import submitit
except ImportError as error:
    raise TrustaxError("the engine slurm needs submitit: pip install 'trustax[slurm]'") from error

LOGS = ".slurm"
"""The folder for submitit's files, beside the run folders."""


class SlurmEngine:
    """Submits all jobs as one array.

    Args:
        partition: the partition of the cluster; None uses the cluster's default.
        minutes: time limit of a job.
        cpus: CPU cores of each job.
        gpus: GPUs of each job.
        cluster: "slurm", or "local" for processes on this machine.
    """

    def __init__(
        self,
        partition: str | None = None,
        minutes: int = 24 * 60,
        cpus: int = 1,
        gpus: float = 0,
        cluster: str = "slurm",
    ) -> None:
        if gpus != int(gpus):
            raise TrustaxError(f"SLURM gives whole GPUs to a run, not {gpus:g}; use --engine ray to share one")
        self._cluster = cluster
        self._cpus = cpus
        self._parameters: dict[str, Any] = {"timeout_min": minutes, "cpus_per_task": cpus, "name": "trustax"}
        if gpus:
            self._parameters["gpus_per_node"] = int(gpus)
        if partition:
            self._parameters["slurm_partition"] = partition
        self._executor: Any = None
        self._batch = contextlib.ExitStack()
        self._num_missing = 0

    def __enter__(self) -> "SlurmEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batch.close()

    def prepare(self, num_jobs: int) -> None:
        self._num_missing = num_jobs
        self._executor = None  # these jobs are an array of their own

    def has_room(self) -> bool:
        return True

    def start(self, job: Job, worker: str) -> "SlurmAttempt":
        job = replace(job, lease=True)
        if self._executor is None:
            self._executor = self._make_executor(job.folder.parent / LOGS)
            self._batch.enter_context(self._executor.batch())
        submitted = self._executor.submit(WorkerTask(), job.to_line(), worker, self._cpus)
        self._num_missing -= 1
        if self._num_missing == 0:
            self._batch.close()  # submits the array
        return SlurmAttempt(job, submitted)

    def _make_executor(self, folder: Path) -> Any:
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self._cluster)
        except RuntimeError as error:
            raise TrustaxError(f"SLURM is not available here: {error}") from error
        executor.update_parameters(**self._parameters)
        return executor


class SlurmAttempt:
    """A job of the array."""

    def __init__(self, job: Job, submitted: Any) -> None:
        self.job = job
        self._submitted = submitted
        self._stopping = False

    def ended(self) -> bool:
        return bool(self._submitted.done())

    def stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._submitted.cancel()

    def close(self) -> None:
        if not self.ended():
            self._submitted.cancel()

    def was_stopped(self) -> bool:
        return self._stopping and self.failure() is not None

    def failure(self) -> str | None:
        try:
            code, stderr = self._submitted.result()
        except Exception as error:  # submitit passes on whatever ended the job
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return f"{lines[-1]}; see {self._submitted.paths.stderr}"
        return failure_of(self.job, code, stderr)
