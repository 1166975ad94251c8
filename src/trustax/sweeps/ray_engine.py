"""The Ray engine: one Ray task per job, which runs the worker and is retried on another node if its node dies."""

import contextlib
import logging
from dataclasses import replace
from types import TracebackType
from typing import Any

from trustax.errors import TrustaxError
from trustax.sweeps.remote import run_worker
from trustax.sweeps.worker import Job, failure_of

try:
    import ray
except ImportError as error:
    raise TrustaxError("the engine ray needs Ray: pip install 'trustax[ray]'") from error


class RayEngine:
    """Submits all jobs; Ray's scheduler decides which nodes run them and when.

    Args:
        address: the address of a cluster, or "auto" on one of its nodes; None starts Ray on this machine.
        cpus: CPU cores of each job.
        gpus: GPUs of each job; a fraction lets jobs share a GPU.
    """

    def __init__(self, address: str | None = None, cpus: int = 1, gpus: float = 0.0) -> None:
        self._address = address
        self._cpus = cpus
        self._gpus = gpus
        self._is_ours = False

    def __enter__(self) -> "RayEngine":
        if ray.is_initialized():
            return self
        try:
            ray.init(
                address=self._address,
                include_dashboard=None if self._address else False,
                configure_logging=True,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise TrustaxError(f"no Ray cluster at {self._address!r}: {reason}; start one with: ray start") from error
        self._is_ours = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            ray.shutdown()

    def prepare(self, num_jobs: int) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for name, needed in (("CPU", self._cpus), ("GPU", self._gpus)):
            if needed > max((node.get(name, 0) for node in nodes), default=0):
                # An autoscaler may still add nodes, so this is no error.
                print(f"no node of the Ray cluster has {needed:g} {name}; the sweep waits for one")

    def has_room(self) -> bool:
        return True

    def start(self, job: Job, worker: str) -> "RayAttempt":
        job = replace(job, lease=True)
        # Ray would start a new process for each task with a GPU, but here only the worker in the task uses it.
        task = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_retries=-1, max_calls=0)(run_worker)
        named = task.options(name=f"trustax {job.title}")
        # Processes can share a GPU only if the first one does not preallocate all of its memory.
        settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if self._gpus < 1 else {}
        return RayAttempt(job, named.remote(job.to_line(), worker, self._cpus, settings))


class RayAttempt:
    """A Ray task that trains one job."""

    def __init__(self, job: Job, reference: Any) -> None:
        self.job = job
        self._reference = reference
        self._stopping = False

    def ended(self) -> bool:
        return bool(ray.wait([self._reference], timeout=0)[0])

    def stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            ray.cancel(self._reference, force=False)

    def close(self) -> None:
        if not self.ended():
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.cancel(self._reference, force=True)

    def was_stopped(self) -> bool:
        return self._stopping and self.failure() is not None

    def failure(self) -> str | None:
        try:
            code, stderr = ray.get(self._reference)
        except ray.exceptions.TaskCancelledError:
            return "stopped; run the same command to continue"
        except ray.exceptions.RayError as error:
            return " ".join(str(error).split("\n")[0].split()) or type(error).__name__
        return failure_of(self.job, code, stderr)
