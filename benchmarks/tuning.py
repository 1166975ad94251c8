"""Measures what tuning costs and finds: 40 trials with pruning beside 40 complete runs, and beside RL Zoo's tuning.

usage: python benchmarks/tuning.py                 CartPole-v1 and Pendulum-v1, 100,000 steps each
       python benchmarks/tuning.py --zoo           also RL Zoo's tuning of Stable-Baselines3's PPO
       python benchmarks/tuning.py CartPole-v1     one task
       python benchmarks/tuning.py --table         print the saved results as Markdown
       python benchmarks/tuning.py --write         write them into docs/benchmarks.md

Parts that are already in `results/benchmarks/tuning.json` are not measured again. Each study runs in a process of its
own, first with an empty compilation cache and then with the filled one. The bars: pruning costs less than half of 40
complete runs, and on five fresh seeds the settings that were found are at least as good as the default settings.
Complete runs are measured one after another, and with eight of them in one program. `--torch` is as in `compare.py`.
`--quick` uses tiny sizes to check that everything runs, and saves only to the file given by --results.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import machine
import numpy as np
import pages
from contenders import PACKAGES, PEERS, ROOT, SCRIPTS, install_peers

import trustax as tx

RESULTS = ROOT / "results" / "benchmarks" / "tuning.json"
MARKER = "<!-- python benchmarks/tuning.py --table -->\n"
TASKS = ("CartPole-v1", "Pendulum-v1")
SPACE = {
    "learning_rate": tx.Range(1e-5, 1e-2, log=True),
    "clip_range": tx.Range(0.1, 0.4),
    "gae_lambda": tx.Range(0.8, 1.0),
    "entropy_cost": tx.Range(1e-8, 0.1, log=True),
    "max_gradient_norm": tx.Range(0.3, 5.0, log=True),
}
ZOO = ("rl_zoo3>=2.9,<3", "pandas>=2.2,<4", "matplotlib>=3.9,<4")
NUM_SEEDS, FRESH_SEED, NUM_FRESH_SEEDS = 2, 1000, 5
PARTS = ("pruned", "complete", "single", "zoo")
NAMES = {
    "pruned": "Trustax, pruned",
    "complete": "Trustax, complete runs, eight in a program",
    "single": "Trustax, complete runs, one after another",
    "zoo": "RL Zoo, Stable-Baselines3 PPO",
}


class Sizes(NamedTuple):
    """The size of all studies. The steps are those of RL Zoo's settings for both tasks."""

    steps: int = 100_000
    trials: int = 40


QUICK = Sizes(steps=16_384, trials=2)


def study(env_id: str, part: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Tune PPO; the settings that were found are then trained on fresh seeds."""
    began = time.perf_counter()
    result = tx.tune(
        "ppo",
        env_id,
        SPACE,
        folder=folder / f"{env_id}-{part}",
        trials=sizes.trials,
        reduction=3 if part == "pruned" else 1,
        generation_size=1 if part == "single" else 8,
        num_seeds=NUM_SEEDS,
        total_timesteps=sizes.steps,
    )
    outcome = {"seconds": round(time.perf_counter() - began, 1), "steps": result.steps, "best": result.best_value()}
    if part == "pruned":
        outcome |= {"settings": result.best_settings, "tuned": fresh_returns(result.best_run)}
        outcome |= {"default": fresh_returns(result.run)}
    return outcome


def fresh_returns(run: tx.Run) -> list[float]:
    """Final returns of five seeds that the study did not use."""
    run = replace(run, seed=FRESH_SEED, num_seeds=NUM_FRESH_SEEDS)
    return tx.train(run, quiet=True).records[-1]["rollout/ep_rew_mean"]


def measure(env_id: str, part: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Run a study in a new process; ours twice, first with an empty compilation cache and then with the filled one."""
    load = os.getloadavg()[0]
    with TemporaryDirectory() as cache:
        variables = os.environ | {"XDG_CACHE_HOME": cache, "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
        outcome = _run(_command(env_id, part, sizes, folder), variables)
        if part != "zoo":
            again = _run(_command(env_id, part, sizes, folder / "again"), variables)
            outcome["seconds_again"] = again["seconds"]
    return outcome | {"load_before": round(load, 2), "machine": machine.describe()}


def _command(env_id: str, part: str, sizes: Sizes, folder: Path) -> list[Any]:
    if part == "zoo":
        # RL Zoo's own search space, TPE and median pruner, with as many trials and steps.
        settings = {"env_id": env_id, "steps": sizes.steps, "trials": sizes.trials, "folder": str(folder / "zoo")}
        return [PEERS, SCRIPTS / "zoo_tuning.py", json.dumps(settings)]
    return [sys.executable, Path(__file__).absolute(), "--folder", folder, "--study", env_id, part, *sizes]


def _run(command: list[Any], variables: dict[str, str]) -> dict[str, Any]:
    """Run a script, and read the JSON object in the last line of its output."""
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True, env=variables)
    return json.loads(done.stdout.splitlines()[-1])


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| task | study | trials | environment steps | seconds | compiled before | best objective | fresh seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    verdicts = []
    for env_id, parts in results["tasks"].items():
        for part, one in sorted(parts.items(), key=lambda item: PARTS.index(item[0])):
            fresh = _mean(one["tuned"]) if "tuned" in one else ""
            again = f"{one['seconds_again']:,.0f}" if "seconds_again" in one else ""
            seconds = f"{one['seconds']:,.0f} | {again}"
            cells = (NAMES[part], results["trials"], f"{one['steps']:,}", seconds, f"{one['best']:.1f}", fresh)
            lines.append(f"| {env_id} | {' | '.join(map(str, cells))} |")
        verdicts += _verdict(env_id, parts)
    described = [part["machine"] for parts in results["tasks"].values() for part in parts.values()]
    return "\n".join([f"{machine.in_words(described[0])}.", "", *lines, "", *verdicts])


def _mean(returns: list[float]) -> str:
    return f"{np.mean(returns):.1f} ± {np.std(returns):.1f}"


def _verdict(env_id: str, parts: dict[str, Any]) -> list[str]:
    """Lines about the bars of a task."""
    lines = []
    pruned = parts.get("pruned")
    for other, words in (("single", "of 40 runs one after another"), ("complete", "of 40 runs, eight in a program")):
        if pruned and other in parts:
            steps, first, again = (_ratio(pruned, parts[other], key) for key in ("steps", "seconds", "seconds_again"))
            compiled = "" if again is None else f"; {again:.0%} if the programs were compiled before"
            lines.append(
                f"- {env_id}: pruning takes {steps:.0%} of the steps {words}, and {first:.0%} of their time{compiled}."
            )
    if pruned:
        better = "at least as good as" if np.mean(pruned["tuned"]) >= np.mean(pruned["default"]) else "worse than"
        lines.append(
            f"- {env_id}: on five fresh seeds the tuned settings are {better} the default ones: "
            f"{_mean(pruned['tuned'])} and {_mean(pruned['default'])}."
        )
    if pruned and "zoo" in parts:
        times = [
            f"{parts['zoo']['seconds'] / pruned[key]:.1f}" for key in ("seconds", "seconds_again") if key in pruned
        ]
        lines.append(f"- {env_id}: RL Zoo's tuning takes {' or '.join(times)} times as long.")
    return lines


def _ratio(one: dict[str, Any], other: dict[str, Any], key: str) -> float | None:
    """The ratio of two measurements; None if one is missing."""
    return one[key] / other[key] if key in one and key in other else None


def install_zoo(torch: str) -> None:
    install_peers(torch, ("torch", "stable-baselines3", "sb3-contrib"))
    subprocess.run([PEERS, "-m", "pip", "install", "--quiet", *ZOO], check=True)


def run(options: argparse.Namespace, sizes: Sizes, path: Path | None) -> dict[str, Any]:
    """Measure what is missing, and save after each study."""
    results: dict[str, Any] = {"steps": sizes.steps, "trials": sizes.trials, "tasks": {}}
    if path is not None and path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    if options.zoo:
        install_zoo(options.torch)
    for env_id in options.tasks or TASKS:
        parts = results["tasks"].setdefault(env_id, {})
        for part in PARTS if options.zoo else PARTS[:-1]:
            if part not in parts:
                parts[part] = measure(env_id, part, sizes, options.folder / env_id)
                print(f"{env_id}, {NAMES[part]}: {parts[part]['seconds']:,.0f} s", flush=True)
            if path is not None:
                path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "benchmark-tuning")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--torch", default=PACKAGES["torch"], metavar="REQUIREMENT")
    parser.add_argument("--study", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.study:
        env_id, part, steps, trials = options.study
        return print(json.dumps(study(env_id, part, Sizes(int(steps), int(trials)), options.folder)))
    for name in options.tasks:
        if name not in TASKS:
            parser.error(f"there is no task {name!r}; choose from {', '.join(TASKS)}")
    path = options.results or (None if options.quick else RESULTS)
    if options.table or options.write:
        text = table(json.loads((path or RESULTS).read_text(encoding="utf-8")))
        if options.write:
            pages.write(pages.BENCHMARKS, MARKER, text)
        return print(text)
    print(table(run(options, QUICK if options.quick else Sizes(), path)))


if __name__ == "__main__":
    main()
