"""`MCPO()` and `PPO()` on Hopper with two discounts: the return, and the discounted return that they maximize.

usage: python benchmarks/discount.py                        print the table
       python benchmarks/discount.py draw                   draw the figure of docs/findings.md
       python benchmarks/discount.py train METHOD DISCOUNT  train the seeds that are missing, as in: train MCPO 0.99

A run has the settings of Table 2 except for the discount and the steps; N is that of `MCPO()`. After training, every
agent plays 200 episodes with noise and 200 with its mean actions, from the same 200 initial states.
"""

import json
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from trustax.agent import Agent
from trustax.algorithms import MCPO, PPO
from trustax.paper.tables.layout import markdown_lines, number
from trustax.paper.tasks import task
from trustax.sweeps.statistics import mean_interval
from trustax.training import train

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "discount.jsonl"
PICTURE = ROOT / "docs" / "figures" / "discount.png"
METHODS = {"MCPO": MCPO, "PPO": PPO}
DISCOUNTS = (0.99, 0.995)
REPORTED_DISCOUNT = 0.99
"""The discount of the reported returns, whatever the discount of the training."""
STEPS, SEEDS, EPISODES, FIRST_STATE = 5_000_000, range(5), 200, 10_000
TASK = task("hopper")


def train_missing(method: str, discount: float) -> None:
    """Train and evaluate the seeds without a result."""
    done = {(row["method"], row["discount"], row["seed"]) for row in rows()}
    for seed in SEEDS:
        if (method, discount, seed) in done:
            continue
        algorithm = METHODS[method](discount=discount)
        run = TASK.run(TASK.tuned(algorithm), total_timesteps=STEPS, bootstrap_truncation=True, seed=seed)
        result = train(run)
        agent = result.agent(0)
        played = {"noise": play(agent, deterministic=False), "mean actions": play(agent, deterministic=True)}
        row = {"method": method, "discount": discount, "seed": seed, **played}
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")


def play(agent: Agent, deterministic: bool) -> dict[str, float]:
    """The return, the discounted return and the length of an episode, on average."""
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(TASK.env_id)] * EPISODES)
    observation, _ = envs.reset(seed=[FIRST_STATE + i for i in range(EPISODES)])
    returns, discounted, length, alive = *np.zeros((3, EPISODES)), np.ones(EPISODES, bool)
    while alive.any():
        action, _ = agent.predict(observation, deterministic=deterministic)
        observation, reward, terminated, truncated, _ = envs.step(action)
        returns += alive * reward
        discounted += alive * reward * REPORTED_DISCOUNT**length
        length += alive
        alive &= ~(terminated | truncated)
    envs.close()
    means = {"return": returns, "discounted": discounted, "length": length}
    return {name: round(float(values.mean()), 1) for name, values in means.items()}


def rows() -> list[dict[str, Any]]:
    """One row for each run, in any order."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> str:
    """Means over seeds with 95% intervals, of episodes with noise; the last column has those with mean actions."""
    headings = ["method", "return", "length", "reward of a step", f"return discounted by {REPORTED_DISCOUNT}"]
    return "\n".join(markdown_lines([*headings, "return of mean actions"], _lines()))


def _lines() -> Iterable[list[str]]:
    for discount, method in product(DISCOUNTS, METHODS):
        if runs := [row for row in rows() if (row["method"], row["discount"]) == (method, discount)]:
            returns, lengths = _column(runs, "return"), _column(runs, "length")
            yield [
                f"{method}()" if discount == METHODS[method]().discount else f"{method}(discount={discount})",
                _summary(returns),
                _summary(lengths),
                _summary(returns / lengths, 2),
                _summary(_column(runs, "discounted")),
                _summary(_column(runs, "return", "mean actions")),
            ]


def _column(runs: list[dict[str, Any]], name: str, actions: str = "noise") -> np.ndarray:
    return np.array([run[actions][name] for run in runs])


def draw() -> None:
    """Draw each agent as a point: its return against the discounted return."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from trustax.plotting.curves import COLORS, STYLE

    with rc_context(STYLE | {"figure.figsize": (6.4, 4.0)}):
        figure = Figure()
        axes = figure.subplots()
        for index, (discount, method) in enumerate(product(DISCOUNTS, METHODS)):
            runs = [row for row in rows() if (row["method"], row["discount"]) == (method, discount)]
            axes.scatter(
                _column(runs, "discounted"),
                _column(runs, "return"),
                color=COLORS[index % len(METHODS)],
                marker="o" if discount == REPORTED_DISCOUNT else "^",
                s=50,
                label=f"{method}, discount {discount}",
            )
        axes.set_xlabel(f"return discounted by {REPORTED_DISCOUNT}")
        axes.set_ylabel("return")
        figure.legend(loc="outside right center")
        figure.savefig(PICTURE)


def _summary(values: np.ndarray, digits: int = 0) -> str:
    mean, low, high = (number(float(value), digits) for value in (values.mean(), *mean_interval(values)))
    return f"{mean} [{low}, {high}]"


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] if not rows():
            raise SystemExit("there are no results yet; run python benchmarks/discount.py train MCPO 0.99")
        case []:
            print(table())
        case ["draw"]:
            draw()
        case ["train", method, discount] if method in METHODS and discount in map(str, DISCOUNTS):
            train_missing(method, float(discount))
        case _:
            raise SystemExit(__doc__)
