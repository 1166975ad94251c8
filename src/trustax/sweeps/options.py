"""The options of the engines on the command line."""

from dataclasses import dataclass, fields

from trustax.cli.optional import OptionalFloat, OptionalInt, OptionalStr
from trustax.cli.parsing import flag
from trustax.errors import TrustaxError
from trustax.sweeps.engines import ENGINES, SweepEngine, make_engine


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where runs are trained."""

    engine: str = "local"
    """local: processes on this machine; ray: a Ray cluster; slurm: jobs of a SLURM cluster."""
    jobs: OptionalInt = None
    """local: number of parallel runs; default: one per core."""
    address: OptionalStr = None
    """ray: address of the cluster, or auto; default: a cluster on this machine."""
    cpus_per_run: OptionalInt = None
    """ray and slurm: CPU cores of each run; default: 1."""
    gpus_per_run: OptionalFloat = None
    """ray and slurm: GPUs of each run; default: 0. With Ray, runs can share a GPU: 0.5."""
    partition: OptionalStr = None
    """slurm: partition of the cluster; default: the cluster's."""
    minutes: OptionalInt = None
    """slurm: time limit of a job. A run that reaches it is saved, queued again and resumed."""

    def make(self) -> SweepEngine:
        """The engine with its options; an option of another engine is refused."""
        ENGINES.find(self.engine)
        own = ARGUMENTS.get(self.engine, {})
        for name in self.given():
            if name not in own and name != "engine":
                options = ", ".join(map(flag, own)) or "none"
                raise TrustaxError(f"{flag(name)} is not an option of the engine {self.engine}; its options: {options}")
        for name in ("jobs", "cpus_per_run", "minutes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TrustaxError(f"{flag(name)} must be at least 1, not {value}")
        gpus = self.gpus_per_run
        if gpus is not None and (gpus < 0 or not (gpus <= 1 or gpus % 1 == 0)):
            raise TrustaxError(f"--gpus-per-run must be from 0 to 1, or a whole number, not {gpus:g}")
        return make_engine(self.engine, **{argument: getattr(self, name) for name, argument in own.items()})

    def given(self) -> list[str]:
        """The names of the options that do not have their defaults."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]


ARGUMENTS = {
    "local": {"jobs": "num_workers"},
    "ray": {"address": "address", "cpus_per_run": "cpus", "gpus_per_run": "gpus"},
    "slurm": {"partition": "partition", "minutes": "minutes", "cpus_per_run": "cpus", "gpus_per_run": "gpus"},
}
"""The options of each engine, with the names of its arguments."""
