"""What the methods learn: trains each on the tasks of `docs/learning.md`, and keeps it in `results/learning.json`.

usage: python benchmarks/learning.py [PART OF A NAME ...]     only the runs whose name contains one of the parts
       python benchmarks/learning.py --table                  print the kept outcomes as Markdown
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import trustax as tx
from trustax.paper.methods import method

RESULTS = Path(__file__).parent.parent / "results" / "learning.json"
MILLION, HALF_MILLION = 1_000_000, 500_000
WIDE = {"num_envs": 32, "horizon": 128}

RUNS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("MCPO N=10", "Pendulum-v1", method("MCPO N=10"), {"num_seeds": 5}),
    ("PPO ε=0.2", "Pendulum-v1", method("PPO ε=0.2"), {"num_seeds": 5}),
    *[
        (name, "Pendulum-v1", method(name), {})
        for name in (
            "KL Fixed β=1",
            "KL Adaptive d=0.01",
            "MDPO β₀=2",
            "VMPO α₀=1",
            "TRGPPO",
            "TRPO δ=0.01",
            "Mean ψ N=10",
        )
    ],
    *[
        (name, "CartPole-v1", method(name), {"total_timesteps": HALF_MILLION})
        for name in ("MCPO N=10", "PPO ε=0.2", "KL Fixed β=1", "KL Adaptive d=0.01", "MDPO β₀=2", "VMPO α₀=1")
    ],
    *[
        (name, "CartPole-v1", method(name), {"total_timesteps": HALF_MILLION})
        for name in ("TRGPPO", "TRPO δ=0.01", "Mean ψ N=10")
    ],
    ("ACKTR δ=0.01", "CartPole-v1", method("ACKTR δ=0.01"), {"total_timesteps": HALF_MILLION, **WIDE}),
    *[
        (name, "LunarLander-v3", method(name), {})
        for name in (
            "MCPO N=10",
            "PPO ε=0.2",
            "KL Fixed β=0.1",
            "KL Adaptive d=0.01",
            "MDPO β₀=0.5",
            "VMPO α₀=1",
            "TRGPPO",
        )
    ],
    ("MCPO N=10 β_max=1", "LunarLander-v3", tx.MCPO(kl_cost_max=1.0), {}),
    ("TRPO δ=0.01, half", "LunarLander-v3", method("TRPO δ=0.01"), {"total_timesteps": HALF_MILLION}),
    ("PPO ε=0.2, half", "LunarLander-v3", method("PPO ε=0.2"), {"total_timesteps": HALF_MILLION}),
    ("ACKTR δ=0.01", "LunarLander-v3", method("ACKTR δ=0.01"), WIDE),
]


def main(parts: list[str]) -> None:
    """Train what was asked for, and keep it."""
    for name, env_id, algorithm, changes in RUNS:
        if parts and not any(part in f"{name} {env_id}" for part in parts):
            continue
        began = time.perf_counter()
        settings = {"total_timesteps": MILLION, "num_seeds": 3} | changes
        final = tx.train(algorithm, env_id, **settings).records[-1]["rollout/ep_rew_mean"]
        keep(
            {
                "method": name,
                "environment": env_id,
                "settings": settings,
                "final": [round(value, 2) for value in final],
                "seconds": round(time.perf_counter() - began),
            }
        )


def kept() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []


def keep(outcome: dict[str, Any]) -> None:
    """Put an outcome in the place of an earlier one of the same run."""
    others = [o for o in kept() if (o["method"], o["environment"]) != (outcome["method"], outcome["environment"])]
    lines = ",\n".join(json.dumps(o, ensure_ascii=False) for o in [*others, outcome])
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def table() -> None:
    print("| environment | method | steps | seeds | return (mean ± std over seeds) | worst seed |")
    print("|---|---|---|---|---|---|")
    for outcome in sorted(kept(), key=lambda o: (o["environment"], -np.mean(o["final"]))):
        final, settings = outcome["final"], outcome["settings"]
        print(
            f"| {outcome['environment']} | {outcome['method']} | {settings['total_timesteps']:,} | {len(final)} "
            f"| {np.mean(final):.1f} ± {np.std(final):.1f} | {min(final):.1f} |"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
    else:
        main(sys.argv[1:])
