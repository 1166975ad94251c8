"""`MCPO()` and `PPO()` on tasks outside the paper.

usage: python benchmarks/unseen.py            print the table
       python benchmarks/unseen.py train      train what is missing, on all tasks
       python benchmarks/unseen.py train ID   train it on some of them

Every run has the library's defaults: `tx.train(tx.MCPO(), ID, total_timesteps=500_000, num_seeds=5)`. The tasks, the
steps and the seeds were fixed before the first run. `TASKS` had a part in the rounds 13 to 15 of docs/readings.md,
which chose settings of `MCPO()` on them, with other seeds. Round 16 used `CONTROL_SUITE` to decide whether
to change one setting; it did not change.
"""

import sys
import time
from functools import cache
from pathlib import Path

import numpy as np

from trustax.algorithms import MCPO, PPO
from trustax.paper.results import outcome_of, read, write
from trustax.paper.tables.layout import markdown_lines, number
from trustax.run import Run
from trustax.sweeps.statistics import bootstrap_interval, mean_interval, probability_of_improvement
from trustax.training import train

RESULTS = Path(__file__).parent.parent / "results" / "unseen"
TASKS = (
    *("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "LunarLanderContinuous-v3"),
    *("MiniGrid-DoorKey-6x6-v0", "MiniGrid-LavaGapS5-v0", "MiniGrid-SimpleCrossingS9N1-v0"),
    *("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Swimmer-v5", "Pusher-v5"),
    "Ant-v5",
)
"""Walker2d is not among them: after 10M steps it is a target of `MCPO()`, and targets decided between readings."""
CONTROL_SUITE = (
    *("BallInCupCatch-v1", "CartpoleSwingup-v1", "CheetahRun-v1", "FingerSpin-v1"),
    *("HopperStand-v1", "PendulumSwingup-v1", "ReacherEasy-v1", "WalkerWalk-v1"),
)
"""Tasks of the DeepMind Control Suite."""
METHODS = {"MCPO()": MCPO(), "PPO()": PPO()}
STEPS, SEEDS = 500_000, 5


@cache
def finals() -> dict[tuple[str, str], np.ndarray]:
    """The final returns of all seeds, by task and method."""
    return {(outcome.run.env_id, outcome.method): outcome.final for outcome in read(RESULTS)}


def train_missing(tasks: tuple[str, ...]) -> None:
    for task in tasks:
        for name, algorithm in METHODS.items():
            if (task, name) not in finals():
                run = Run(algorithm=algorithm, env_id=task, total_timesteps=STEPS, num_seeds=SEEDS)
                began = time.perf_counter()
                records = train(run).records
                print(write(outcome_of(run, name, records, time.perf_counter() - began), RESULTS), flush=True)


def table() -> str:
    """Final returns, and the probability that a run of `MCPO()` ends higher than one of `PPO()`."""
    headings = ["task", *METHODS, "P(MCPO() is better)"]
    return "\n".join(markdown_lines(headings, [*_rows(TASKS, "above"), *_rows(CONTROL_SUITE, "of the Control Suite")]))


def _rows(tasks: tuple[str, ...], name_of_group: str) -> list[list[str]]:
    """One row per task, and one for all of them."""
    rows = []
    trained = [task for task in tasks if all((task, name) in finals() for name in METHODS)]
    for task in trained:
        ours, others = (finals()[task, name] for name in METHODS)
        better = number(float(probability_of_improvement([ours], [others])), 2)
        rows.append([task.removeprefix("MiniGrid-"), _summary(ours), _summary(others), better])
    if trained:
        better = improvement(tuple(trained))
        rows.append([f"all {len(trained)} {name_of_group}", "", "", better])
    return rows


def improvement(tasks: tuple[str, ...]) -> str:
    """The probability that a run of `MCPO()` is better than one of `PPO()` on these tasks, with its interval."""
    ours, others = ([finals()[task, name] for task in tasks] for name in METHODS)
    low, high = bootstrap_interval(probability_of_improvement, ours, others)
    better = float(probability_of_improvement(ours, others))
    return f"{number(better, 2)} [{number(low, 2)}, {number(high, 2)}]"


def _summary(final: np.ndarray) -> str:
    digits = 2 if np.abs(final).max() < 10 else 1 if np.abs(final).max() < 1000 else 0
    mean, low, high = (number(float(value), digits) for value in (final.mean(), *mean_interval(final)))
    return f"{mean} [{low}, {high}]"


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] if not finals():
            raise SystemExit("there are no results yet; run python benchmarks/unseen.py train")
        case []:
            print(table())
        case ["train", *chosen] if set(chosen) <= {*TASKS, *CONTROL_SUITE}:
            train_missing(tuple(chosen) or TASKS + CONTROL_SUITE)
        case _:
            raise SystemExit(__doc__)
