"""Trains the methods on the tasks of `docs/learning.md`, and saves the outcomes in `results/bootstrapped/`.

usage: python benchmarks/learning.py [PART OF A NAME ...]     train one run by its name, or all that contain all parts
       python benchmarks/learning.py --table                  print the saved outcomes as Markdown
       python benchmarks/learning.py --curves                 plot the saved outcomes into docs/

Options: --seed FIRST and --num-seeds COUNT select other seeds, --results FOLDER saves the outcomes elsewhere.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from trustax.paper.methods import method
from trustax.paper.results import Outcome, outcome_of, read, write
from trustax.paper.tables.layout import number
from trustax.paper.tasks import TASKS, Task, task
from trustax.plotting.curves import plot_curves
from trustax.run import Run
from trustax.training import train

ROOT = Path(__file__).parent.parent
MILLION, HALF_MILLION = 1_000_000, 500_000
DEFAULT = "MCPO N=10 default"
"""`MCPO()`."""


def planned() -> dict[str, Run]:
    """Every run by its name, `task method`."""
    runs = {}

    def plan(task_name: str, *methods: str, **settings: int) -> None:
        for name in methods:
            suffix = ", one actor" if settings.get("num_envs") == 1 else ""
            runs[f"{task_name} {name}{suffix}"] = task(task_name).run(method(name), **{"num_seeds": 3} | settings)

    forms = DEFAULT, "MCPO N=10", "MCPO N=10 literal"
    plan("pendulum", *forms, "PPO ε=0.2", num_seeds=5)
    plan("lunar-lander", *forms, "PPO ε=0.2")
    plan("bipedal-walker", *forms, "PPO ε=0.3", "KL Fixed β=0.1", num_seeds=5)
    plan("unlock", *forms, "PPO ε=0.2", num_seeds=10)
    for name in ("hopper", "half-cheetah"):
        ppo = "PPO ε=0.2", "PPO ε=0.2 default"
        plan(name, *forms, "MCPO N=40 literal", *ppo, total_timesteps=MILLION, num_seeds=5)
        # With 16 actors, a million steps are only 30 iterations, too few for any method; with one actor they are 488.
        plan(name, *forms, "PPO ε=0.2", total_timesteps=MILLION, num_envs=1)
    plan("breakout", *forms, "PPO ε=0.2", total_timesteps=3 * MILLION, num_seeds=1)
    cartpole = Task(env_id="CartPole-v1", total_timesteps=HALF_MILLION)
    for name in (DEFAULT, "PPO ε=0.2 default"):
        runs[f"cartpole {name}"] = cartpole.run(method(name), num_seeds=10)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--curves", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--num-seeds", type=int)
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "bootstrapped")
    options = parser.parse_args()
    if options.table:
        return print_table(read(options.results))
    if options.curves:
        return draw(read(options.results))
    others = {name: value for name in ("seed", "num_seeds") if (value := getattr(options, name)) is not None}
    runs, requested = planned(), " ".join(options.parts)
    chosen = (
        [requested] if requested in runs else [name for name in runs if all(part in name for part in options.parts)]
    )
    if not chosen:
        parser.error(f"there is no run {requested!r}; choose from {', '.join(runs)}")
    for name in chosen:
        began = time.perf_counter()
        run = replace(runs[name], **others)
        records = train(run).records
        print(write(outcome_of(run, name.split(" ", 1)[1], records, time.perf_counter() - began), options.results))


def print_table(outcomes: list[Outcome]) -> None:
    print("| environment | method | steps | seeds | return (mean ± std over seeds) | worst seed | success rate |")
    print("|---|---|---|---|---|---|---|")
    for outcome in sorted(outcomes, key=lambda o: (o.run.env_id, -np.mean(o.final))):
        final, successes = outcome.final, outcome.successes
        rate = "" if successes is None else f"{successes[:, -1].mean():.2f} ± {successes[:, -1].std():.2f}"
        digits = 2 if np.abs(final).max() < 10 else 1
        mean, deviation, worst = (number(float(value), digits) for value in (final.mean(), final.std(), final.min()))
        print(
            f"| {outcome.run.env_id} | {outcome.method} | {outcome.steps[-1]:,} | {len(final)} "
            f"| {mean} ± {deviation} | {worst} | {rate} |"
        )


def draw(outcomes: list[Outcome]) -> None:
    """Draw one plot per task with all its methods."""
    for name in TASKS:
        curves = {
            outcome.method: [
                {"time/total_timesteps": step, "rollout/ep_rew_mean": row.tolist()}
                for step, row in zip(outcome.steps, outcome.returns.T, strict=True)
            ]
            for outcome in outcomes
            if outcome.run.env_id == task(name).env_id
        }
        if curves:
            path = ROOT / "docs" / "curves" / f"{name}.png"
            path.parent.mkdir(exist_ok=True)
            plot_curves(curves, path, title=task(name).env_id)
            print(path)


if __name__ == "__main__":
    main()
