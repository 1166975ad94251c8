"""How the methods depend on the minibatch size: Pendulum with time limits that terminate, all else as in the paper.

    python benchmarks/robustness.py run      train what results/robustness.json lacks
    python benchmarks/robustness.py draw     draw docs/figures/robustness.png from it

A batch has 8,192 samples and the paper's settings divide it into 64 minibatches of 128. Smaller minibatches take more
steps of the same learning rate in an epoch, so a method without a firm trust region moves too far.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import trustax as tx
from trustax.paper.methods import method
from trustax.paper.statistics import Summary, summary
from trustax.paper.tasks import TASKS

RESULTS = Path("results/robustness.json")
PICTURE = Path("docs/figures/robustness.png")
SIZES = (64, 128, 512, 32)
METHODS = (
    "MCPO N=10 adaptive β_max",
    "PPO ε=0.2",
    "MCPO N=10",
    "KL Fixed β=1",
    "KL Adaptive d=0.01",
    "MDPO β₀=0.5",
    "VMPO α₀=1",
    "TRGPPO",
    "Mean ψ N=10",
)


def run_of(name: str, size: int, num_seeds: int = 10, total_timesteps: int | None = None) -> tx.Run:
    """Pendulum as in the paper, with minibatches of `size` samples."""
    task = TASKS["pendulum"]
    num_minibatches = task.num_envs * task.horizon // size
    algorithm: Any = replace(task.tuned(method(name)), num_minibatches=num_minibatches)
    settings = {} if total_timesteps is None else {"total_timesteps": total_timesteps}
    run = task.run(tx.PPO(), num_seeds=num_seeds, bootstrap_truncation=False, **settings)
    return replace(run, algorithm=algorithm)


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


def run_missing(path: Path) -> None:
    """Train every method at every size, and save each result as soon as it is there."""
    rows = read(path)
    for size in SIZES:
        for name in METHODS:
            if any((row["method"], row["minibatch_size"]) == (name, size) for row in rows):
                continue
            result = tx.train(run_of(name, size), quiet=True)
            returns = [round(float(value), 2) for value in result.records[-1]["rollout/ep_rew_mean"]]
            rows.append({"method": name, "minibatch_size": size, "returns": returns})
            write(path, rows)
            print(f"{name}, {size} samples: {np.mean(returns):.1f} {returns}", flush=True)


def draw(path: Path, picture: Path) -> None:
    """One line for each method: the mean return over seeds and its standard deviation against the minibatch size."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from trustax.plotting.curves import COLORS, LINE_STYLES, STYLE

    rows = read(path)
    with rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        for index, name in enumerate(METHODS):
            points = {row["minibatch_size"]: summary(np.array(row["returns"])) for row in rows if row["method"] == name}
            _line(axes, points, name, COLORS[index % len(COLORS)], LINE_STYLES[index // len(COLORS)])
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(SIZES), [str(size) for size in sorted(SIZES)])
        axes.set_xlabel("samples in a minibatch (the paper's settings: 128)")
        axes.set_ylabel("episode return")
        axes.set_title("Pendulum, time limits terminate: mean and standard deviation of 10 seeds")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(picture)


def _line(axes: Any, points: dict[int, Summary], name: str, color: str, style: str) -> None:
    sizes = sorted(points)
    means = np.array([points[size].mean for size in sizes])
    stds = np.array([points[size].std for size in sizes])
    axes.plot(sizes, means, style, color=color, label=name, marker="o", markersize=4)
    axes.fill_between(sizes, means - stds, means + stds, color=color, alpha=0.10, linewidth=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "draw"])
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file with the results")
    options = parser.parse_args()
    if options.action == "run":
        run_missing(options.output)
    else:
        draw(options.output, PICTURE)


if __name__ == "__main__":
    main()
