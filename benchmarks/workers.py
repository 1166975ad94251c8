"""Measures how fast PPO collects from a slow Gymnasium environment, in one process and in worker processes.

usage: python benchmarks/workers.py [--workers COUNT ...] [--envs COUNT] [--repetitions COUNT]

The environment sleeps for one millisecond in every step, like one that waits for a simulator. Repetitions take turns;
the table has the medians, without the first iteration of each run, which compiles.
"""

import argparse
import time
from statistics import fmean, median
from typing import Any

import gymnasium
import machine
import numpy as np

import trustax as tx

HORIZON, ITERATIONS = 128, 5
SLEEP_SECONDS = 0.001


class SlowEnv(gymnasium.Env):
    """A random walk whose steps take a millisecond."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.np_random.normal(size=4).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(SLEEP_SECONDS)
        self._steps += 1
        return self.np_random.normal(size=4).astype(np.float32), float(action), self._steps == 200, False, {}


def collecting_speed(num_workers: int, num_envs: int) -> float:
    """Steps per second of collecting, without learning."""
    run = tx.Run(
        algorithm=tx.PPO(num_epochs=1, num_minibatches=4, hidden_sizes=(64, 64)),
        env_id="SlowEnv",
        num_envs=num_envs,
        horizon=HORIZON,
        total_timesteps=ITERATIONS * HORIZON * num_envs,
    )
    records = tx.train(run, SlowEnv, num_workers=num_workers, quiet=True).records[1:]
    return fmean(record["time/fps"] / (1 - record["time/update_share"]) for record in records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    counts = [0, *options.workers]
    speeds: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(options.repetitions):
        for count in counts:
            speeds[count].append(collecting_speed(count, options.envs))
    print(f"{machine.in_words(machine.describe())}. {options.envs} environments:\n")
    print("| workers | steps a second | times as fast as one process |\n|---|---|---|")
    for count in counts:
        speed = median(speeds[count])
        print(f"| {count or 'none'} | {speed:,.0f} | {speed / median(speeds[0]):.2f} |")


if __name__ == "__main__":
    main()
