"""Plans a reproduction: the runs of an experiment that have no outcome yet, as jobs of a sweep."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trustax.paper.experiments import Cell, experiment
from trustax.paper.results import digest, read_file, same_except_length, to_slug
from trustax.run import Run
from trustax.sweeps.worker import Job

TIMED = "cost"
"""The experiment that measures speed. It runs under one protocol only and has its own results folder."""
ROUNDS = 3
"""The number of repetitions of a timed run; the runs take turns."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The part of an experiment to run; by default all of it, with the paper's settings."""

    name: str
    protocols: Sequence[str]
    methods: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    num_seeds: int | None = None
    total_timesteps: int | None = None

    def cells(self, protocol: str) -> list[Cell]:
        return experiment(self.name).cells(protocol, self.methods, self.tasks, self.num_seeds, self.total_timesteps)

    @property
    def folders(self) -> dict[str, str]:
        """Protocol → name of its results folder."""
        return {self.protocols[0]: TIMED} if self.name == TIMED else {name: name for name in self.protocols}

    @property
    def rounds(self) -> int:
        return ROUNDS if self.name == TIMED else 1


def missing_jobs(part: Part, results: Path, runs: Path) -> list[Job]:
    """The jobs for the runs without an outcome in `results`; their run directories go under `runs`."""
    found = {folder: definitions(results / folder) for folder in part.folders.values()}
    return [
        _job(part, protocol, cell, seeds, number, results, runs)
        for number in range(part.rounds)
        for protocol, folder in part.folders.items()
        for cell in part.cells(protocol)
        for seeds in missing_seeds(cell, found[folder])
    ]


def _job(part: Part, protocol: str, cell: Cell, seeds: range, number: int, results: Path, runs: Path) -> Job:
    folder = part.folders[protocol]
    run = replace(cell.run, seed=seeds[0], num_seeds=len(seeds))
    slug = f"{cell.task}__{to_slug(cell.method)}__{digest(run)}__{seeds[0]}-{seeds[-1]}"
    rounds = [runs / folder / slug]
    title = [cell.method, cell.task]
    if len(seeds) < cell.run.num_seeds:
        title.append(f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}")
    if len(part.folders) > 1:
        title.append(protocol)
    if part.rounds > 1:
        rounds = [runs / folder / f"{slug}__round-{one + 1}" for one in range(part.rounds)]
        title.append(f"round {number + 1}")
    notes = {
        "method": cell.method,
        "results": str(results / folder),
        "rounds": [str(one) for one in rounds],
    }
    return Job(title=" · ".join(title), run=run, folder=rounds[number], notes=notes)


def definitions(folder: Path) -> list[tuple[str, Run]]:
    """The method and the run of every outcome in a folder, except those of runs that stopped before their end."""
    outcomes = [read_file(path) for path in sorted(folder.glob("*.json"))]
    return [(outcome.method, outcome.run) for outcome in outcomes if outcome.is_complete]


def missing_seeds(cell: Cell, found: Iterable[tuple[str, Run]]) -> list[range]:
    """The seeds of a cell without an outcome, as contiguous ranges.

    If there is no outcome of the cell's length, a longer run counts if it has all of the seeds: tables then show it.
    """
    seeds: dict[int, set[int]] = {}
    for method, run in found:
        if method == cell.method and same_except_length(run, cell.run):
            seeds.setdefault(run.total_timesteps, set()).update(run.seeds)
    required, length = set(cell.run.seeds), cell.run.total_timesteps
    if length not in seeds and any(longer > length and required <= present for longer, present in seeds.items()):
        return []
    return _ranges(sorted(required - seeds.get(length, set())))


def _ranges(numbers: Sequence[int]) -> list[range]:
    """Split ascending numbers into contiguous ranges.

    >>> _ranges([0, 1, 2, 5])
    [range(0, 3), range(5, 6)]
    """
    starts = [number for number in numbers if number - 1 not in numbers]
    stops = [number + 1 for number in numbers if number + 1 not in numbers]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]
