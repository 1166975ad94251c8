"""R17: methods still reach the returns that are stored in results/."""

from dataclasses import replace

import numpy as np

import trustax as tx
from reliability.rows import Row
from reliability.runs import ROOT
from trustax.paper.results import read_file

STORED = {
    "PPO() on CartPole": ("defaults/CartPole-v1__PPO__*.json", 20.0),
    "MCPO() on CartPole": ("defaults/CartPole-v1__MCPO__*.json", 20.0),
    "TRPO() on CartPole": ("defaults/CartPole-v1__TRPO__*.json", 20.0),
    "PPO() on Pendulum": ("defaults/Pendulum-v1__PPO__*.json", -1600.0),
    "PPO on Unlock": ("bootstrapped/MiniGrid-Unlock-v0__PPO-0.2__*.json", 0.0),
}
"""The file of the stored outcome, and the return of a policy that has learned nothing."""
QUICK = "PPO() on CartPole"
MOST_DROP = 0.1


def check(full: bool) -> Row:
    row = Row("R17", "returns of the default budgets on CartPole, Pendulum and Unlock against the stored ones")
    for name in STORED if full else [QUICK]:
        with row.trial(name):
            pattern, worst = STORED[name]
            (path,) = (ROOT / "results").glob(pattern)
            stored = read_file(path)
            if full:
                run = replace(stored.run, num_seeds=min(5, stored.run.num_seeds))
                _assert_as_good(tx.train(run, quiet=True), stored.final, worst)
            else:
                result = tx.train(replace(stored.run, total_timesteps=100_000, num_seeds=1), quiet=True)
                assert np.mean(result.records[-1]["rollout/ep_rew_mean"]) > 50, "it has learned nothing"
    return row


def _assert_as_good(result: tx.Result, stored: np.ndarray, worst: float) -> None:
    """The mean return may be lower by a tenth of what was learned, or within the 95 % intervals of both means."""
    returns = np.array(result.records[-1]["rollout/ep_rew_mean"], float)
    drop = (stored.mean() - returns.mean()) / (stored.mean() - worst)
    spread = 1.96 * np.hypot(returns.std(ddof=1) / np.sqrt(len(returns)), stored.std(ddof=1) / np.sqrt(len(stored)))
    message = f"return {returns.mean():.2f}, but {stored.mean():.2f} is stored"
    assert drop <= MOST_DROP or stored.mean() - returns.mean() <= spread, message


CHECKS = {"R17": check}
