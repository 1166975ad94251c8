"""Measures what tuning costs and finds: 40 trials with pruning beside 40 complete runs, and beside RL Zoo's tuning.

usage: python benchmarks/tuning.py                 CartPole-v1 (100k steps) and Pendulum-v1 (200k steps)
       python benchmarks/tuning.py --zoo           also RL Zoo's tuning of Stable-Baselines3's PPO
       python benchmarks/tuning.py CartPole-v1     one task

Each study is continued if it was interrupted; a study that was interrupted has no valid time. The outcomes are saved in
`results/tuning.json`. The bars: pruning costs less than half of the steps and of the time of 40 complete runs, and on
five fresh seeds the settings that were found are at least as good as the default settings. `--torch` is as in
`compare.py`.
"""

import argparse
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from contenders import PACKAGES, PEERS, ROOT, SCRIPTS, install_peers

import trustax as tx

RESULTS = ROOT / "results" / "tuning.json"
TASKS = {"CartPole-v1": 100_000, "Pendulum-v1": 200_000}
SPACE = {
    "learning_rate": tx.Range(1e-5, 1e-2, log=True),
    "clip_range": tx.Range(0.1, 0.4),
    "gae_lambda": tx.Range(0.8, 1.0),
    "entropy_cost": tx.Range(1e-8, 0.1, log=True),
    "max_gradient_norm": tx.Range(0.3, 5.0, log=True),
}
ZOO = "rl_zoo3>=2.9,<3"
TRIALS, NUM_SEEDS, FRESH_SEED, NUM_FRESH_SEEDS = 40, 2, 1000, 5


def study(env_id: str, reduction: int, folder: Path) -> tuple[tx.TuningResult, dict[str, Any]]:
    """Tune PPO; return the result and its cost."""
    began = time.perf_counter()
    result = tx.tune(
        "ppo",
        env_id,
        SPACE,
        folder=folder / f"{env_id}-{reduction}",
        trials=TRIALS,
        reduction=reduction,
        num_seeds=NUM_SEEDS,
        total_timesteps=TASKS[env_id],
    )
    seconds = time.perf_counter() - began
    return result, {"steps": result.steps, "seconds": round(seconds, 1), "best": result.best_value()}


def fresh_returns(run: tx.Run) -> list[float]:
    """Final returns of five seeds that the study did not use."""
    run = replace(run, seed=FRESH_SEED, num_seeds=NUM_FRESH_SEEDS)
    return tx.train(run, quiet=True).records[-1]["rollout/ep_rew_mean"]


def measure(env_id: str, folder: Path) -> dict[str, Any]:
    load = os.getloadavg()[0]
    pruned, cost = study(env_id, 3, folder)
    _, complete = study(env_id, 1, folder)
    return {
        "pruned": cost,
        "complete": complete,
        "settings": pruned.best_settings,
        "tuned": fresh_returns(pruned.best_run),
        "default": fresh_returns(pruned.run),
        "load_before": round(load, 2),
    }


def measure_zoo(env_id: str, folder: Path) -> dict[str, Any]:
    """RL Zoo's own search space, TPE and median pruner, with as many trials and steps."""
    settings = {"env_id": env_id, "steps": TASKS[env_id], "trials": TRIALS, "folder": str(folder / f"zoo-{env_id}")}
    done = subprocess.run(
        [PEERS, SCRIPTS / "zoo_tuning.py", json.dumps(settings)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def print_table(outcomes: dict[str, Any]) -> None:
    print("| task | steps | seconds | steps, share | time, share | tuned | default | bars |")
    print("|---|---|---|---|---|---|---|---|")
    for env_id, one in outcomes.items():
        steps, seconds = (one["pruned"][key] / one["complete"][key] for key in ("steps", "seconds"))
        tuned, default = (np.array(one[key]) for key in ("tuned", "default"))
        met = steps < 0.5 and seconds < 0.5 and tuned.mean() >= default.mean()
        print(
            f"| {env_id} | {one['pruned']['steps']:,} | {one['pruned']['seconds']:.0f} | {steps:.0%} | {seconds:.0%} "
            f"| {tuned.mean():.1f} ± {tuned.std():.1f} | {default.mean():.1f} ± {default.std():.1f} "
            f"| {'met' if met else 'not met'} |"
        )
        if "zoo" in one:
            zoo = one["zoo"]
            print(f"| {env_id}, RL Zoo | {zoo['steps']:,} | {zoo['seconds']:.0f} | | | {zoo['best']:.1f} | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "benchmark-tuning")
    parser.add_argument("--torch", default=PACKAGES["torch"], metavar="REQUIREMENT")
    options = parser.parse_args()
    for name in options.tasks:
        if name not in TASKS:
            parser.error(f"there is no task {name!r}; choose from {', '.join(TASKS)}")
    outcomes = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if options.zoo:
        install_peers(options.torch, ("torch", "stable-baselines3", "sb3-contrib"))
        subprocess.run([PEERS, "-m", "pip", "install", "--quiet", ZOO], check=True)
    for env_id in options.tasks or TASKS:
        if env_id not in outcomes:
            outcomes[env_id] = measure(env_id, options.folder)
        if options.zoo and "zoo" not in outcomes[env_id]:
            outcomes[env_id]["zoo"] = measure_zoo(env_id, options.folder)
        RESULTS.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")
    print_table(outcomes)


if __name__ == "__main__":
    main()
