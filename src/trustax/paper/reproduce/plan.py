"""What an experiment still lacks: the runs of its cells that have no outcome yet, as jobs of a sweep."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trustax.paper.experiments import Cell, experiment
from trustax.paper.results import digest, plain_name, read_file, same_but_for_length
from trustax.run import Run
from trustax.sweep.worker import Job

TIMED = "cost"
"""The experiment whose runs are timed: under one protocol only, with a folder of its own among the results."""
ROUNDS = 3
"""A run that is timed is run so many times, in turn with the others."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Which part of an experiment: all of it as the paper has it, where nothing else is said."""

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
        """Each protocol with its folder's name."""
        return {self.protocols[0]: TIMED} if self.name == TIMED else {name: name for name in self.protocols}

    @property
    def rounds(self) -> int:
        return ROUNDS if self.name == TIMED else 1


def missing_jobs(part: Part, results: Path, runs: Path) -> list[Job]:
    """The runs that have no outcome among the results; their folders are to be under `runs`."""
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
    slug = f"{cell.task}__{plain_name(cell.method)}__{digest(run)}__{seeds[0]}-{seeds[-1]}"
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
    """Method and run of every outcome in a folder."""
    outcomes = [read_file(path) for path in sorted(folder.glob("*.json"))]
    return [(outcome.method, outcome.run) for outcome in outcomes]


def missing_seeds(cell: Cell, found: Iterable[tuple[str, Run]]) -> list[range]:
    """The seeds of a cell that have no outcome, as segments without a gap.

    A longer run counts too, if it has all of the cell's seeds: tables show the longest.
    """
    seeds: dict[int, set[int]] = {}
    for method, run in found:
        if method == cell.method and same_but_for_length(run, cell.run):
            seeds.setdefault(run.total_timesteps, set()).update(run.seeds)
    wanted = set(cell.run.seeds)
    if any(length >= cell.run.total_timesteps and wanted <= present for length, present in seeds.items()):
        return []
    return _ranges(sorted(wanted - seeds.get(cell.run.total_timesteps, set())))


def _ranges(numbers: Sequence[int]) -> list[range]:
    """Numbers that count up, cut where one is left out.

    >>> _ranges([0, 1, 2, 5])
    [range(0, 3), range(5, 6)]
    """
    begins = [one for one in numbers if one - 1 not in numbers]
    ends = [one + 1 for one in numbers if one + 1 not in numbers]
    return [range(begin, end) for begin, end in zip(begins, ends, strict=True)]
