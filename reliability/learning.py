"""R17: methods still reach the returns that are stored in results/."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

import trustax as tx
from reliability.rows import Row
from reliability.runs import ROOT
from trustax.paper.methods import method
from trustax.paper.results import read_file

STORED = {
    "PPO on Pendulum": ("bootstrapped/Pendulum-v1__PPO-0.2__*.json", -1600.0),
    "PPO on Unlock": ("bootstrapped/MiniGrid-Unlock-v0__PPO-0.2__*.json", 0.0),
}
"""The file of the stored outcome, and the return of a policy that has learned nothing."""
MOST_DROP = 0.1


def check(full: bool) -> Row:
    row = Row("R17", "returns of the default budgets on CartPole, Pendulum and Unlock against the stored ones")
    for name, (pattern, worst) in list(STORED.items()) if full else []:
        with row.trial(name):
            (path,) = (ROOT / "results").glob(pattern)
            stored = read_file(path)
            run = replace(stored.run, num_seeds=min(5, stored.run.num_seeds))
            _assert_as_good(tx.train(run, quiet=True), stored.final, worst)
    for name in ("MCPO N=10", "TRPO δ=0.01") if full else ("PPO ε=0.2",):
        with row.trial(f"{name} on CartPole"):
            stored_returns, settings = _stored_on_cartpole(name)
            if not full:
                settings |= {"total_timesteps": 100_000, "num_seeds": 1}
            result = tx.train(method(name), "CartPole-v1", quiet=True, **settings)
            if full:
                _assert_as_good(result, stored_returns, worst=20.0)
            else:
                assert np.mean(result.records[-1]["rollout/ep_rew_mean"]) > 50, "it has learned nothing"
    return row


def _stored_on_cartpole(name: str) -> tuple[np.ndarray, dict[str, Any]]:
    """The final returns, and the settings of the run."""
    rows = json.loads((ROOT / "results" / "learning.json").read_text(encoding="utf-8"))
    (found,) = (one for one in rows if (one["method"], one["environment"]) == (name, "CartPole-v1"))
    return np.array(found["final"]), found["settings"]


def _assert_as_good(result: tx.Result, stored: np.ndarray, worst: float) -> None:
    """The mean return may be lower by a tenth of what was learned, or within the 95 % intervals of both means."""
    returns = np.array(result.records[-1]["rollout/ep_rew_mean"], float)
    drop = (stored.mean() - returns.mean()) / (stored.mean() - worst)
    spread = 1.96 * np.hypot(returns.std(ddof=1) / np.sqrt(len(returns)), stored.std(ddof=1) / np.sqrt(len(stored)))
    message = f"return {returns.mean():.2f}, but {stored.mean():.2f} is stored"
    assert drop <= MOST_DROP or stored.mean() - returns.mean() <= spread, message


CHECKS = {"R17": check}
