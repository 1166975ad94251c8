"""Trains the runs of docs/learning.md that no `trustax reproduce` has, and prints its table of all methods.

usage: python benchmarks/learning.py                            print the table
       python benchmarks/learning.py defaults [PART OF A NAME]  train what the table lacks, as in: defaults Pendulum
       python benchmarks/learning.py targets [PART OF A NAME]   train the runs of CartPole, Hopper and HalfCheetah that
                                                                benchmarks/targets.py compares, as in: targets Hopper

The table has every method with its default settings. Time limits are bootstrapped. A name is "METHOD on ENVIRONMENT".
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from trustax.algorithms import ALGORITHMS
from trustax.cli.formatting import short_count
from trustax.paper.experiments import Cell
from trustax.paper.methods import method
from trustax.paper.reproduce.plan import definitions, missing_seeds
from trustax.paper.results import find, outcome_of, read, write
from trustax.paper.tables.layout import markdown_lines, number
from trustax.paper.tasks import Task, task
from trustax.run import Run
from trustax.sweeps.statistics import mean_interval, summary
from trustax.training import train

ROOT = Path(__file__).parent.parent
FOLDERS = {"defaults": ROOT / "results" / "defaults", "targets": ROOT / "results" / "bootstrapped"}
CARTPOLE = Task(env_id="CartPole-v1", total_timesteps=500_000)
TASKS = (CARTPOLE, task("pendulum"))
SHORT_ROLLOUTS = {"acktr": {"num_envs": 32, "horizon": 20}}
"""ACKTR makes one update per iteration, so it needs short rollouts; see docs/methods/acktr.md."""
Runs = dict[tuple[str, str], Run]
"""By method and environment."""


def defaults() -> Runs:
    """Every method with its default settings on two tasks."""
    return {
        (f"{ALGORITHMS.find(name).__name__}()", each.env_id): each.run(
            ALGORITHMS.find(name)(), num_seeds=5, **SHORT_ROLLOUTS.get(name, {})
        )
        for each in TASKS
        for name in ALGORITHMS
    }


def targets() -> Runs:
    """MCPO and PPO on CartPole, and on Hopper and HalfCheetah for a million steps, where the paper has ten million."""
    both = ("MCPO N=10 default", "PPO ε=0.2 default")
    runs = {(name, CARTPOLE.env_id): CARTPOLE.run(method(name), num_seeds=10) for name in both}
    for each in (task("hopper"), task("half-cheetah")):
        for name in (*both, "MCPO N=10 one target", "PPO ε=0.2", "MCPO N=10 literal"):
            runs[name, each.env_id] = each.run(method(name), total_timesteps=1_000_000, num_seeds=5)
    return runs


def train_missing(group: str, part: str) -> None:
    """Train the seeds of a group that have no outcome yet, in runs whose name contains `part`."""
    runs, folder = {"defaults": defaults, "targets": targets}[group](), FOLDERS[group]
    if not any(part in f"{name} on {env_id}" for name, env_id in runs):
        raise SystemExit(f"no run has {part!r} in its name; a name is, for example, PPO() on CartPole-v1")
    done = definitions(folder)
    for (name, env_id), run in runs.items():
        if part in f"{name} on {env_id}":
            for seeds in missing_seeds(Cell(name, env_id, run), done):
                missing = replace(run, seed=seeds[0], num_seeds=len(seeds))
                began = time.perf_counter()
                records = train(missing).records
                print(write(outcome_of(missing, name, records, time.perf_counter() - began), folder))


def table() -> str:
    """The final returns of all methods, mean ± standard deviation over seeds with the 95% interval of the mean."""
    headings = ["method", *(f"{each.env_id}, {short_count(each.total_timesteps)}" for each in TASKS)]
    return "\n".join(markdown_lines(headings, _rows()))


def _rows() -> Iterable[list[str]]:
    runs, outcomes = defaults(), read(FOLDERS["defaults"])
    for name in dict.fromkeys(name for name, _ in runs):
        cells = [find(outcomes, name, runs[name, each.env_id]) for each in TASKS]
        yield [f"`{name}`", *("–" if cell is None else _cell(cell.final) for cell in cells)]


def _cell(returns: np.ndarray) -> str:
    ours = summary(returns)
    mean, deviation, low, high = (number(value, 0) for value in (ours.mean, ours.std, *mean_interval(returns)))
    return f"{mean} ± {deviation} [{low}, {high}]"


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(table())
        case [group, *parts] if group in FOLDERS and len(parts) < 2:
            train_missing(group, "".join(parts))
        case _:
            raise SystemExit(__doc__)
