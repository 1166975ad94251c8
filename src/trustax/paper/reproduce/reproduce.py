"""Reproduces an experiment of the paper: runs what has no outcome yet, then shows it beside the paper's numbers.

Tables, figures and traces are imported inside functions, so that a sweep starts without them.
"""

from pathlib import Path

from rich.console import Console

from trustax.cli.formatting import short_count
from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.experiments import EXPERIMENTS
from trustax.paper.reproduce.plan import Part, missing_jobs
from trustax.paper.tasks import task
from trustax.sweeps.engines import SweepEngine
from trustax.sweeps.local import LocalEngine
from trustax.sweeps.pool import Failure, run_jobs

TRACED = ("figure-1a", "figure-1b", "within")
"""Figures made from traces of single MCPO runs."""
DRAWN = ("overview", "curves", "profiles")
"""Figures made from all existing outcomes; they run nothing."""
NAMES = [*EXPERIMENTS, *TRACED, *DRAWN]
TRACED_TASKS, TRACED_METHODS, TRACED_SEEDS = ("unlock",), ("MCPO N=10", "MCPO N=10 literal"), 5
FIGURES_FOLDER = "figures"
WORKER = "trustax.paper.reproduce.worker"


def require_known(name: str) -> None:
    if name not in NAMES:
        raise TrustaxError(f"there is no experiment {name!r} to reproduce; {similar_or_all(name, NAMES)}")


def run_missing(part: Part, results: Path, runs: Path, engine: SweepEngine | None = None) -> list[Failure]:
    """Run everything that has no outcome yet; returns the failures."""
    if part.name in EXPERIMENTS:
        return _sweep(part, results, runs, engine)
    if part.name in TRACED:
        _trace(part, results)
    return []


def render(part: Part, results: Path, console: Console) -> None:
    """Print the tables and draw the figures of an experiment from the existing results."""
    from trustax.paper import figures
    from trustax.paper.tables import tables

    for protocol in part.folders:
        if part.name in tables.TABLES:
            shown = tables.table(part.name, results, protocol)
            tables.part_of(shown, part.methods, part.tasks).print(console)
        if part.name in figures.FIGURES:
            pictures = figures.save_figure(part.name, results, protocol, results / FIGURES_FOLDER)
            nothing = f"{part.name}: nothing to draw yet for protocol {protocol}"
            for line in [str(path) for path in pictures] or [nothing]:
                console.print(line, soft_wrap=True, markup=False, highlight=False)


def _sweep(part: Part, results: Path, runs: Path, engine: SweepEngine | None) -> list[Failure]:
    jobs = missing_jobs(part, results, runs)
    num_cells = sum(len(part.cells(protocol)) for protocol in part.folders)
    steps = sum(job.steps * job.run.num_seeds for job in jobs)
    plan = f"{_count(len(jobs), 'run')} to go: {short_count(steps)} environment steps, in {runs}"
    line = f"{part.name}: {_count(num_cells, 'cell')}, {plan if jobs else 'nothing to run'}"
    Console(stderr=True).print(line, soft_wrap=True, markup=False, highlight=False)
    # Timed runs must not run in parallel.
    if part.rounds > 1:
        engine = LocalEngine(1)
    return run_jobs(jobs, engine, part.name, WORKER) if jobs else []


def _trace(part: Part, results: Path) -> None:
    """Trace the runs that have no trace yet."""
    from trustax.paper.trace.trace import read_traces, write_trace

    for protocol in part.protocols:
        runs = {(trace.task, trace.method): trace.run for trace in read_traces(results, protocol)}
        for name in part.tasks or TRACED_TASKS:
            for method in part.methods or TRACED_METHODS:
                required = (part.total_timesteps or task(name).total_timesteps, part.num_seeds or TRACED_SEEDS)
                found = runs.get((name, method))
                if found is None or (found.total_timesteps, found.num_seeds) != required:
                    write_trace(results, name, method, protocol, total_timesteps=required[0], num_seeds=required[1])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
