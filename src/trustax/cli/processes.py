"""The options of a run that is divided over processes, for `trustax train` and `trustax resume`."""

from dataclasses import dataclass, replace
from typing import Literal

import jax

from trustax.cli.optional import OptionalInt, OptionalStr
from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.runtime.cores import available_cores
from trustax.runtime.devices import configure_devices
from trustax.runtime.distributed import Distributed


@dataclass(frozen=True, kw_only=True)
class Processes:
    """The processes of a distributed run."""

    distributed: bool = False
    """Divide the seeds over processes, which share --run-dir; all are started with the same options."""
    coordinator: OptionalStr = None
    """HOST:PORT of process 0 with a free port; SLURM, Open MPI and Kubernetes set this and the next two."""
    num_processes: OptionalInt = None
    """Number of processes."""
    process_id: OptionalInt = None
    """Number of this process, from 0."""
    shard: Literal["seeds", "envs"] = "seeds"
    """What the devices of this machine share: the seeds, or the environments of each seed, as with --env-shards."""

    def chosen(self) -> Distributed | None:
        """The processes, or None if the run has one."""
        given = (self.coordinator, self.num_processes, self.process_id)
        if not self.distributed and given == (None, None, None):
            return None
        return Distributed(coordinator=self.coordinator, num_processes=self.num_processes, process_id=self.process_id)

    def divided(self, run: Run) -> Run:
        """The run with its environments divided over all devices of this machine, if that was chosen."""
        if self.shard == "seeds" or run.env_shards > 1:
            return run
        if self.chosen() is not None:
            raise TrustaxError(
                "--shard envs counts the devices of one machine; with several processes, give --env-shards"
            )
        configure_devices(len(available_cores()))
        return replace(run, env_shards=jax.local_device_count())
