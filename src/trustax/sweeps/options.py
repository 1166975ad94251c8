"""The options of the engines on the command line."""

from dataclasses import dataclass
from typing import Any

from trustax.cli.optional import OptionalFloat, OptionalInt, OptionalStr
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
        own: dict[str, Any] = _by_engine(self).get(self.engine, {})
        flags = {"jobs", "address", "cpus_per_run", "gpus_per_run", "partition", "minutes"}
        named = {"num_workers": "jobs", "cpus": "cpus_per_run", "gpus": "gpus_per_run"}
        allowed = {named.get(name, name) for name in own}
        for flag in sorted(flags - allowed):
            if getattr(self, flag) is not None:
                option = flag.replace("_", "-")
                raise TrustaxError(f"--{option} is not an option of the engine {self.engine}; see trustax sweep --help")
        for flag in ("jobs", "cpus_per_run", "minutes"):
            value = getattr(self, flag)
            if value is not None and value < 1:
                raise TrustaxError(f"--{flag.replace('_', '-')} must be at least 1, not {value}")
        return make_engine(self.engine, **own)


def _by_engine(options: EngineOptions) -> dict[str, dict[str, Any]]:
    """The arguments of each engine."""
    resources = {"cpus": options.cpus_per_run, "gpus": options.gpus_per_run}
    return {
        "local": {"num_workers": options.jobs},
        "ray": {"address": options.address} | resources,
        "slurm": {"partition": options.partition, "minutes": options.minutes} | resources,
    }
