"""`sweep`: train every method on every environment with every combination of settings, wherever an engine runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from trustax.algorithms import ALGORITHMS, Algorithm, name_of
from trustax.errors import TrustaxError
from trustax.run import Run, to_json
from trustax.storage.object_store import is_url
from trustax.sweeps.engines import SweepEngine, make_engine
from trustax.sweeps.grid import Cell, Grid, short_hash
from trustax.sweeps.pool import run_jobs
from trustax.sweeps.results import SweepResult, collect
from trustax.sweeps.worker import Job, finished_records

LONGEST_NAME = 255
"""Bytes of the longest name that file systems allow."""


def sweep(
    methods: str | Algorithm | Iterable[str | Algorithm],
    env_ids: str | Iterable[str],
    *,
    folder: str | Path,
    engine: str | SweepEngine = "local",
    quiet: bool = False,
    **settings: Any,
) -> SweepResult:
    """Train every method on every environment with every combination of settings.

    Finished runs are not repeated: after an interruption, the same call continues.

    Args:
        methods: algorithms, by name or as objects with settings.
        env_ids: ids of environments.
        folder: the folder for the run folders and `results.csv`, or the URL of one in an object store, for example
            "s3://bucket/sweeps/x".
        engine: "local", "ray", "slurm", or an engine with options, for example `RayEngine(address="auto")`.
        quiet: do not show progress.
        settings: settings of `Run` and of the algorithms; a list gives several values to combine, for example
            `memory_size=[5, 10, 40]`. A setting applies to the methods that have it.
    """
    if isinstance(env_ids, type) or not isinstance(env_ids, Iterable):
        raise TrustaxError(
            f"sweep takes ids of environments, because its runs have processes of their own, not {env_ids!r}; "
            "register it, and write my_module:Mine-v0"
        )
    grid = Grid(named_methods(methods), [env_ids] if isinstance(env_ids, str) else list(env_ids), _as_lists(settings))
    console = Console(stderr=True, quiet=quiet)
    return run_grid(grid, folder, make_engine(engine) if isinstance(engine, str) else engine, console)


def run_grid(grid: Grid, place: str | Path, engine: SweepEngine, console: Console) -> SweepResult:
    """Train the runs of a grid that are not finished, and collect the results of all."""
    folder, store = local_folder(place)
    jobs = [(_job(run, cells, folder, store), cells) for run, cells in grid.expand()]
    missing = [job for job, _ in jobs if finished_records(job.run, job.folder, store=job.store) is None]
    failures = run_jobs(missing, engine, folder.name, console=console) if missing else []
    result = collect(folder, jobs, failures, store)
    result.save()
    return result


def local_folder(place: str | Path) -> tuple[Path, str | None]:
    """The folder of a sweep on this machine, and the URL of the sweep if it is in an object store.

    >>> local_folder("runs/a")
    (PosixPath('runs/a'), None)
    >>> local_folder("s3://bucket/sweeps/x/")
    (PosixPath('runs/x-07414eb6'), 's3://bucket/sweeps/x')
    """
    if not is_url(place):
        return Path(place), None
    url = str(place).rstrip("/")
    return Path("runs") / f"{url.rpartition('/')[2]}-{short_hash(url)}", url


def digest(grid: Grid) -> str:
    """Eight hexadecimal digits that depend on all runs of a grid."""
    return short_hash([to_json(run) for run, _ in grid.expand()])


def _job(run: Run, cells: Sequence[Cell], folder: Path, store: str | None) -> Job:
    """The job of a run. Its folder is named after what it trains, and has a hash of all its settings."""
    shared = [word for word in cells[0].label.split() if all(word in cell.label.split() for cell in cells)]
    label = " ".join(shared) + (f" × {len(cells)}" if len(cells) > 1 else "")
    unique = short_hash(to_json(run))
    name = _folder_name(f"{run.env_id} {label}", unique)
    return Job(
        title=f"{label} · {run.env_id} · {unique}",
        run=run,
        folder=folder / name,
        store=None if store is None else f"{store}/{name}",
    )


def _folder_name(label: str, unique: str) -> str:
    """The words of a label, and a hash. A name that is too long is cut, with room for the suffix of a log beside it.

    >>> _folder_name("CartPole-v1 ppo clip_range=0.1", "07414eb6")
    'CartPole-v1-ppo-clip-range-0.1__07414eb6'
    """
    words = "-".join(re.findall(r"[A-Za-z0-9.]+", label))
    if len(f"{words}__{unique}") > LONGEST_NAME:
        words = words[: LONGEST_NAME - len(f"__{unique}.log")]
    return f"{words}__{unique}"


def named_methods(methods: str | Algorithm | Iterable[str | Algorithm]) -> Mapping[str, Algorithm]:
    given = [methods] if isinstance(methods, str | Algorithm) else list(methods)
    named: dict[str, Algorithm] = {}
    for method in given:
        algorithm = ALGORITHMS.find(method)() if isinstance(method, str) else method
        name = method if isinstance(method, str) else name_of(algorithm)
        if name in named:
            raise TrustaxError(f"the sweep has {name} twice; give several values of its settings instead")
        named[name] = algorithm
    return named


def _as_lists(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: list(value) if isinstance(value, list | range) else [value] for name, value in settings.items()}
