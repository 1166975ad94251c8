"""The processes of a run: each trains its own learners, and all of them take every decision together."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax

from trustax import __version__
from trustax.errors import TrustaxError
from trustax.run import Run, settings_of
from trustax.runtime.connecting import connect, parse_address
from trustax.runtime.jax_processes import jax_processes
from trustax.runtime.link import Link
from trustax.settings import per_learner_values


@dataclass(frozen=True, kw_only=True)
class Distributed:
    """How a run is divided over processes. All of them are started with the same settings and their own number.

    Under SLURM, Open MPI and Kubernetes everything is found as `jax.distributed.initialize` finds it.
    """

    coordinator: str | None = None
    """The address of process 0 and a free port there, HOST:PORT."""
    num_processes: int | None = None
    """The number of processes."""
    process_id: int | None = None
    """The number of this process, from 0."""

    def detected(self) -> tuple[str, int, int]:
        """The coordinator, the number of processes and the number of this one."""
        coordinator, number, process = self.coordinator, self.num_processes, self.process_id
        if coordinator is None or number is None or process is None:
            coordinator, number, process = _detect(coordinator, number, process)
        if not (isinstance(number, int) and isinstance(process, int) and 0 <= process < number):
            raise TrustaxError(f"process_id must be a number below num_processes, but they are {process} and {number}")
        return coordinator, number, process


def _detect(coordinator: str | None, number: int | None, process: int | None) -> tuple[str, int, int]:
    """Ask JAX for what is missing, and use only the devices that it assigns to this process."""
    try:
        from jax._src.clusters import ClusterEnv  # how jax.distributed.initialize finds them

        found = ClusterEnv.auto_detect_unset_distributed_params(coordinator, number, process, None, None, 300)
        coordinator, number, process, devices = found
    except Exception as error:
        raise TrustaxError(f"the processes cannot be found: {' '.join(str(error).split())[:200]}") from error
    if coordinator is None or number is None or process is None:
        raise TrustaxError(
            "a distributed run needs coordinator (HOST:PORT of process 0), num_processes and process_id; only SLURM, "
            "Open MPI and Kubernetes set them"
        )
    if devices:
        for platform in ("cuda", "rocm"):
            jax.config.update(f"jax_{platform}_visible_devices", ",".join(map(str, devices)))
    return coordinator, number, process


class Group:
    """The processes that train a run together; by default one alone.

    With `divides_envs`, every process has all learners and some of the environments of each. Otherwise every process
    has some of the learners.
    """

    def __init__(
        self, num_processes: int = 1, process_id: int = 0, link: Link | None = None, divides_envs: bool = False
    ) -> None:
        self.num_processes = num_processes
        self.process_id = process_id
        self.divides_envs = divides_envs
        self._link = link

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, which writes the metrics and the manifests."""
        return self.process_id == 0

    @property
    def reports_learners(self) -> bool:
        """Whether this process reports its learners: if each process has all of them, only process 0 does."""
        return self.is_first or not self.divides_envs

    @property
    def of_learners(self) -> "Group":
        """The processes that have learners of their own; alone if each has all of them."""
        return Group() if self.divides_envs else self

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in their order; values are JSON, and every process must call it."""
        return [value] if self._link is None else self._link.gather(value)

    def any_process(self, flag: bool) -> bool:
        """Whether the flag is true in any process; every process must call this."""
        return any(self.gather(bool(flag)))

    def learners(self, run: Run) -> range:
        """The learners of this process, by index: blocks of almost equal sizes.

        >>> from trustax.algorithms import PPO
        >>> run = Run(algorithm=PPO(), env_id="CartPole-v1", num_seeds=5)
        >>> [Group(2, process).learners(run) for process in range(2)]
        [range(0, 3), range(3, 5)]
        """
        if self.divides_envs:
            return range(run.num_seeds)
        share, rest = divmod(run.num_seeds, self.num_processes)
        first = self.process_id * share + min(self.process_id, rest)
        return range(first, first + share + (self.process_id < rest))

    def part_of(self, run: Run) -> Run:
        """The run of this process's learners alone."""
        if self.num_processes == 1:
            return run
        if self.divides_envs:
            if run.env_shards % self.num_processes:
                raise TrustaxError(
                    f"env_shards is {run.env_shards}, which is not a multiple of num_processes = {self.num_processes}; "
                    "each process needs the same number of devices"
                )
            return run
        if self.num_processes > run.num_seeds:
            raise TrustaxError(
                f"num_processes is {self.num_processes}, but num_seeds is {run.num_seeds}; each process trains at "
                "least one seed"
            )
        own = self.learners(run)
        values = {name: each[own.start : own.stop] for name, each in per_learner_values(run.algorithm).items()}
        algorithm = dataclasses.replace(run.algorithm, **values)
        seeds = list(run.seeds)[own.start : own.stop]
        for repeats in range(1, len(own) + 1):
            if [*range(seeds[0], seeds[0] + len(own) // repeats)] * repeats == seeds:
                return dataclasses.replace(
                    run, algorithm=algorithm, seed=seeds[0], num_seeds=len(own), repeat_seeds=repeats
                )
        raise TrustaxError(
            f"repeat_seeds is {run.repeat_seeds}, which {self.num_processes} processes cannot divide; use a number of "
            f"processes that divides it"
        )


@contextmanager
def joined(distributed: Distributed | None, run: Run, engine: str) -> Iterator[Group]:
    """Connect this process to the others of its run, which must have the same settings, engine and versions."""
    if distributed is None:
        yield Group()
        return
    coordinator, number, process = distributed.detected()
    divides_envs = run.env_shards > 1
    Group(number, process, divides_envs=divides_envs).part_of(run)  # raises an error if the run cannot be divided
    if number == 1:
        yield Group()
        return
    versions = {"trustax version": __version__, "jax version": jax.__version__}
    settings = settings_of(run, without=()) | {"engine": engine} | versions
    with connect(coordinator, number, process, settings) as link:
        group = Group(number, process, link, divides_envs)
        with jax_processes(parse_address(coordinator)[0], group) if divides_envs else nullcontext():
            yield group
