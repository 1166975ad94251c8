"""The targets of `MCPO()`, its returns and PPO's: a table of docs/learning.md, from the outcomes under results/.

usage: python benchmarks/targets.py
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from trustax.cli.formatting import short_count
from trustax.paper.results import Outcome, read
from trustax.paper.tables.layout import markdown_lines, number
from trustax.sweeps.statistics import mean_interval

ROOT = Path(__file__).parent.parent
LIMITS = {"paper": "terminate", "bootstrapped": "bootstrapped"}
DEFAULT = "MCPO N=10 default"


class Target(NamedTuple):
    """The mean return that `MCPO()` should reach on a task; None: that of PPO."""

    env_id: str
    steps: int
    protocol: str
    mean: float | None
    seed: float | None = None
    """at least nine of ten seeds should reach this"""
    ppo: str = "PPO ε=0.2"
    digits: int = 1
    ours: str = DEFAULT
    """the row of MCPO"""


TARGETS = (
    Target("Pendulum-v1", 1_000_000, "paper", -180, seed=-250),
    Target("Pendulum-v1", 1_000_000, "bootstrapped", -155),
    Target("LunarLander-v3", 1_000_000, "paper", 255),
    Target("LunarLander-v3", 1_000_000, "bootstrapped", 255),
    Target("BipedalWalker-v3", 5_000_000, "paper", 255, ppo="PPO ε=0.3"),
    Target("BipedalWalker-v3", 5_000_000, "bootstrapped", 255, ppo="PPO ε=0.3"),
    Target("MiniGrid-Unlock-v0", 100_000, "paper", 0.5, digits=2),
    Target("MiniGrid-UnlockPickup-v0", 1_000_000, "paper", 0.6, digits=2),
    Target("Hopper-v5", 1_000_000, "bootstrapped", 800, ppo="PPO ε=0.2 default", digits=0),
    Target("HalfCheetah-v5", 1_000_000, "bootstrapped", None, ppo="PPO ε=0.2 default", digits=0),
    Target("CartPole-v1", 500_000, "bootstrapped", 500, ppo="PPO ε=0.2 default", digits=0),
    *(
        Target(env_id, 10_000_000, "bootstrapped", mean, ppo="PPO ε=0.2 default", digits=0, ours="MCPO N=40 default")
        for env_id, mean in (("HalfCheetah-v5", 6173 - 595), ("Walker2d-v5", 5120 - 588), ("Hopper-v5", 3620 - 252))
    ),
)
"""On the tasks with 10M steps, the target is the lower end of the paper's mean ± deviation, for two of the three."""


def table() -> str:
    """One row for each target."""
    outcomes = {protocol: read(ROOT / "results" / protocol) for protocol in LIMITS}
    headings = ["task", "time limits", "target", "MCPO()", "worst seed", "PPO", "met"]
    return "\n".join(markdown_lines(headings, (_row(target, outcomes[target.protocol]) for target in TARGETS)))


def _row(target: Target, outcomes: list[Outcome]) -> list[str]:
    ours, ppo = (_final(target, outcomes, method) for method in (target.ours, target.ppo))
    wanted = "above PPO" if target.mean is None else f"{target.mean:,g}".replace("-", "−")
    met = len(ours) > 0 and bool(ours.mean() >= (ppo.mean() if target.mean is None else target.mean))
    if target.seed is not None:
        wanted += f", 9 of 10 seeds above {target.seed:g}".replace("-", "−")
        met &= bool(np.mean(ours > target.seed) >= 0.9)
    return [
        f"{target.env_id.removeprefix('MiniGrid-').removesuffix('-v0')}, {short_count(target.steps)}",
        LIMITS[target.protocol],
        wanted,
        _summary(ours, target.digits),
        number(float(ours.min()), target.digits) if len(ours) else "–",
        _summary(ppo, target.digits),
        "yes" if met else "no",
    ]


def _final(target: Target, outcomes: list[Outcome], method: str) -> np.ndarray:
    """The final returns of a method, one for each seed; empty if it has not run."""
    found = [
        outcome.final
        for outcome in outcomes
        if (outcome.run.env_id, outcome.run.total_timesteps, outcome.method) == (target.env_id, target.steps, method)
        and outcome.is_complete
    ]
    return np.concatenate(found) if found else np.array([])


def _summary(returns: np.ndarray, digits: int) -> str:
    """The mean with its 95% interval, and the number of seeds."""
    if not len(returns):
        return "–"
    low, high = (number(float(end), digits) for end in mean_interval(returns))
    return f"{number(float(returns.mean()), digits)} [{low}, {high}] ({len(returns)})"


if __name__ == "__main__":
    print(table())
