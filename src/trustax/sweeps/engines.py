"""Engines run the jobs of a sweep somewhere: on this machine, on a Ray cluster, or through SLURM.

An engine stores no state. The run folders show which runs are finished and how far the others are, so any engine can
continue the sweep of another one. With Ray and SLURM the folders must be on a file system that all nodes
share.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from trustax.errors import TrustaxError
from trustax.settings import Registry
from trustax.sweeps.worker import Job


@runtime_checkable
class Attempt(Protocol):
    """A job that an engine runs."""

    job: Job

    def ended(self) -> bool: ...

    def stop(self) -> None:
        """Ask the job to save and stop. Later calls do nothing."""

    def close(self) -> None:
        """Release everything; a job that still runs is killed."""

    def was_stopped(self) -> bool:
        """Whether an ended job has stopped because it was asked to."""

    def failure(self) -> str | None:
        """The reason in one line why an ended job has failed; None if it has finished."""


@runtime_checkable
class SweepEngine(AbstractContextManager["SweepEngine"], Protocol):
    """Starts jobs. Entering the context connects to the engine, and leaving it ends what was started."""

    def prepare(self, num_jobs: int) -> None:
        """Called once, before the first job starts."""

    def has_room(self) -> bool:
        """Whether another job can be started now."""

    def start(self, job: Job, worker: str) -> Attempt:
        """Start a job in a process of its own that runs the module `worker`."""


def _local(**options: Any) -> SweepEngine:
    from trustax.sweeps.local import LocalEngine

    return LocalEngine(**options)


def _ray(**options: Any) -> SweepEngine:
    from trustax.sweeps.ray_engine import RayEngine

    return RayEngine(**options)


def _slurm(**options: Any) -> SweepEngine:
    from trustax.sweeps.slurm import SlurmEngine

    return SlurmEngine(**options)


ENGINES: Registry[Callable[..., SweepEngine]] = Registry(
    "engine for sweeps", "trustax.sweep_engines", {"local": _local, "ray": _ray, "slurm": _slurm}
)


def make_engine(name: str, **options: Any) -> SweepEngine:
    """Make an engine by its name; options that are None keep their defaults."""
    given = {option: value for option, value in options.items() if value is not None}
    try:
        return ENGINES.find(name)(**given)
    except TypeError as error:
        raise TrustaxError(f"the engine {name} does not take these options: {error}") from error
