"""The options of a run that is divided over processes, for `trustax train` and `trustax resume`."""

from dataclasses import dataclass

from trustax.runtime.distributed import Distributed


@dataclass(frozen=True, kw_only=True)
class Processes:
    """The processes of a distributed run."""

    distributed: bool = False
    """Divide the seeds over processes, which share --run-dir; all are started with the same options."""
    coordinator: str | None = None
    """HOST:PORT of process 0 with a free port; SLURM, Open MPI and Kubernetes set these three."""
    num_processes: int | None = None
    """Number of processes."""
    process_id: int | None = None
    """Number of this process, from 0."""

    def chosen(self) -> Distributed | None:
        """The processes, or None if the run has one."""
        given = (self.coordinator, self.num_processes, self.process_id)
        if not self.distributed and given == (None, None, None):
            return None
        return Distributed(coordinator=self.coordinator, num_processes=self.num_processes, process_id=self.process_id)
