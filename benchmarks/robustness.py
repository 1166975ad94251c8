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
from trustax.paper.tables.targets import SOLVED
from trustax.paper.tasks import TASKS
from trustax.sweeps.statistics import mean_interval

RESULTS = Path("results/robustness.json")
PICTURE = Path("docs/figures/robustness.png")
SIZES = (64, 128, 512, 32)
HELD = "MCPO N=10 default, β once an epoch"
METHODS = (
    "MCPO N=10 default",
    HELD,
    "PPO ε=0.2",
    "MCPO N=10",
    "KL Fixed β=1",
    "KL Adaptive d=0.01",
    "MDPO β₀=0.5",
    "VMPO α₀=1 sum",
    "TRGPPO",
    "Mean ψ N=10",
)


def run_of(name: str, size: int, num_seeds: int = 10, total_timesteps: int | None = None) -> tx.Run:
    """Pendulum as in the paper, with minibatches of `size` samples."""
    task = TASKS["pendulum"]
    num_minibatches = task.num_envs * task.horizon // size
    chosen = tx.MCPO(switch_every="epoch") if name == HELD else method(name)
    algorithm: Any = replace(task.tuned(chosen), num_minibatches=num_minibatches)
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
    """Draw the mean return with its 95% interval, and how many seeds solve the task, against the minibatch size."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from trustax.plotting.curves import COLORS, LINE_STYLES, STYLE

    rows = read(path)
    with rc_context(STYLE | {"figure.figsize": (10.5, 4.2), "axes.titlesize": 11, "axes.titlepad": 8}):
        figure = Figure()
        means, solved = figure.subplots(1, 2)
        for index, name in enumerate(METHODS):
            points = {row["minibatch_size"]: np.array(row["returns"]) for row in rows if row["method"] == name}
            width = 2.4 if "MCPO" in name else 1.1
            style = {"color": COLORS[index % len(COLORS)], "linestyle": LINE_STYLES[index // len(COLORS)]}
            sizes = np.array(sorted(points))
            shifted = sizes * 2.0 ** (0.04 * (index - len(METHODS) / 2))  # the bars stand beside each other
            averages = np.array([points[size].mean() for size in sizes])
            intervals = np.array([mean_interval(points[size]) for size in sizes])
            means.plot(shifted, averages, linewidth=width, marker="o", markersize=4, **style)
            means.vlines(shifted, intervals[:, 0], intervals[:, 1], color=style["color"], linewidth=1)
            counts = [int((points[size] > SOLVED["pendulum"]).sum()) for size in sizes]
            solved.plot(shifted, counts, linewidth=width, marker="o", markersize=4, label=name, **style)
        means.set_title("Mean return and 95% interval")
        solved.set_title(f"Seeds of 10 that end above {SOLVED['pendulum']:.0f}")
        for axes in (means, solved):
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(SIZES), [str(size) for size in sorted(SIZES)])
            axes.set_xlabel("samples in a minibatch (paper: 128)")
        figure.legend(loc="outside right center")
        figure.savefig(picture)


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
