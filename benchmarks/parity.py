"""Compares our PPO and TRPO with Stable-Baselines3's on the same task, with the same settings and number of seeds.

usage: python benchmarks/parity.py            train what is missing in `results/parity.json`, then print the table

The peers are installed into `.venv-peers` on the first call, so that the project's own environment has no PyTorch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import trustax as tx

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "parity.json"
PEERS = ROOT / ".venv-peers"
PACKAGES = ["torch==2.13.0", "stable-baselines3>=2.9,<3", "sb3-contrib>=2.9,<3", "gymnasium[box2d]>=1.1,<1.5"]
ENV_ID, STEPS, SEEDS = "LunarLander-v3", 500_000, (0, 1, 2)
OURS = {"ppo": tx.PPO(), "trpo": tx.TRPO()}


def peer_python() -> Path:
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
        for package in PACKAGES:  # PyTorch first, so that no later package installs another build
            subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
    return python


def peer_return(method: str, seed: int) -> float:
    script = ROOT / "benchmarks" / "peers" / "sb3_learning.py"
    command = [peer_python(), script, method, ENV_ID, str(STEPS), str(seed)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["return"]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for method, algorithm in OURS.items():
        if f"trustax {method}" not in kept:
            result = tx.train(algorithm, ENV_ID, total_timesteps=STEPS, num_seeds=len(SEEDS))
            kept[f"trustax {method}"] = result.records[-1]["rollout/ep_rew_mean"]
        if f"stable-baselines3 {method}" not in kept:
            kept[f"stable-baselines3 {method}"] = [peer_return(method, seed) for seed in SEEDS]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"| {ENV_ID}, {STEPS:,} steps | returns of the seeds | mean ± std |\n|---|---|---|")
    for name, returns in sorted(kept.items(), key=lambda item: item[0].split()[::-1]):
        seeds = ", ".join(f"{value:.0f}" for value in returns)
        print(f"| {name} | {seeds} | {np.mean(returns):.1f} ± {np.std(returns):.1f} |")


if __name__ == "__main__":
    main()
