"""Measures the overhead of the training loop: steps per second end to end, and of the engine alone.

usage: python benchmarks/environments.py                      measure every task of the paper
       python benchmarks/environments.py --tasks NAME ...     measure only these tasks
       python benchmarks/environments.py --table              print the saved results as Markdown

Options: --repetitions COUNT and --results FILE. --quick uses short rollouts to check that everything runs; it saves
only to the file given by --results.

The engine alone takes random actions: EnvPool is stepped from Python in its synchronous mode, and JAX environments run
in one compiled scan. The loop trains with the paper's settings; its speed comes from its records. Engine and methods
take turns, each in its own process, task by task; all of it is repeated `--repetitions` times, and the table has the
medians.

Our claim: if the engine alone makes fewer than 10,000 steps per second, the loop takes less time than the environments.
The end-to-end speed is then at least half the speed of the engine.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

import jax
import machine
import numpy as np

from trustax.envs import engine_of, make
from trustax.envs.envpool import Pool
from trustax.paper.methods import method
from trustax.paper.tasks import TASKS, Task, task
from trustax.training import train
from trustax.types import BoxActions, EnvSpec

RESULTS = Path(__file__).parent.parent / "results" / "benchmarks" / "environments.json"
ENGINE = "engine alone"
METHODS = ("PPO ε=0.2", "MCPO N=10")
FAST = 10_000
"""The claim applies to engines that make fewer steps per second than this."""
ENGINE_SECONDS, LOOP_SECONDS = 2.0, 5.0
"""How long to measure the engine, and the time whose engine steps give the number of training iterations."""
WARM_UP, MIN_ITERATIONS, MAX_ITERATIONS = 2, 3, 20
"""Iterations: warm-up, and the minimum and maximum number that are measured."""
NUM_ACTIONS = 64
"""The number of steps whose random actions for EnvPool are drawn in advance and then repeated."""
QUICK_HORIZON = 32


def engine_speed(task: Task, seconds: float) -> float:
    """Steps per second of all environments of a task together."""
    play, num_steps = (from_jax if engine_of(task.env_id) == "native" else from_envpool)(task)
    play()
    began, rounds = time.perf_counter(), 0
    while rounds == 0 or time.perf_counter() - began < seconds:
        play()
        rounds += 1
    return rounds * num_steps * task.num_envs / (time.perf_counter() - began)


def from_envpool(task: Task) -> tuple[Callable[[], None], int]:
    """A function that steps the environments, and its number of steps per call."""
    pool = Pool(task.env_id, [0], task.num_envs)
    rows = [pool.action(row) for row in random_actions(pool.spec, (NUM_ACTIONS, task.num_envs))]
    pool.raw.reset()

    def play() -> None:
        for row in rows:
            pool.raw.step(row)

    return play, len(rows)


def from_jax(task: Task) -> tuple[Callable[[], None], int]:
    """The same for JAX environments."""
    environment: Any = make(task.env_id, [0], task.num_envs)
    actions = random_actions(environment.spec, (task.horizon, 1, task.num_envs))
    scan = jax.jit(lambda state, actions: jax.lax.scan(environment.step, state, actions))
    state, _ = environment.reset()

    def play() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(scan(state, actions))

    return play, task.horizon


def random_actions(spec: EnvSpec, axes: tuple[int, ...]) -> np.ndarray:
    generator = np.random.default_rng(0)
    if isinstance(spec.actions, BoxActions):
        return generator.uniform(*spec.actions.bounds, (*axes, *spec.actions.shape)).astype(np.float32)
    return generator.integers(0, spec.actions.num_outputs, axes, np.int32)


def loop_speed(task: Task, method_name: str, num_iterations: int) -> dict[str, float]:
    """The medians of a training run's records, without the warm-up iterations."""
    run = task.run(method(method_name))
    run = replace(run, total_timesteps=(WARM_UP + num_iterations) * run.batch_size)
    records = train(run, quiet=True).records[WARM_UP:]
    measured = {
        "fps": [record["time/fps"] for record in records],
        # Collecting only, without updates.
        "collect_fps": [record["time/fps"] / (1 - record["time/update_share"]) for record in records],
        "update_share": [record["time/update_share"] for record in records],
        # Only recorded if environments are stepped from Python.
        "environment_share": [record.get("time/environment_share") for record in records],
    }
    return {name: round(median(values), 3) for name, values in measured.items() if None not in values}


def num_iterations(task: Task, fps: float) -> int:
    count = round(LOOP_SECONDS * fps / (task.num_envs * task.horizon))
    return min(max(count, MIN_ITERATIONS), MAX_ITERATIONS)


def measure(names: list[str], repetitions: int, quick: bool, path: Path | None) -> dict[str, Any]:
    """Measure tasks, and save after each measurement; earlier results of other tasks are kept."""
    kept = load_results(path)
    tasks = {name: replace(task(name), horizon=QUICK_HORIZON) if quick else task(name) for name in names}
    kept["tasks"] |= {name: {"engine": engine_of(own.env_id), "num_envs": own.num_envs} for name, own in tasks.items()}
    plan = [(name, what) for _ in range(repetitions) for name in names for what in (ENGINE, *METHODS)]
    took: dict[tuple[str, str], float] = {}
    for number, (name, what) in enumerate(plan):
        began, cell = time.perf_counter(), kept["tasks"][name].setdefault(what, {})
        if what == ENGINE:
            found = {"fps": round(in_own_process(engine_speed, tasks[name], 0 if quick else ENGINE_SECONDS), 1)}
        else:
            count = 1 if quick else num_iterations(tasks[name], kept["tasks"][name][ENGINE]["fps"][-1])
            found = in_own_process(loop_speed, tasks[name], what, count)
        for metric, value in found.items():
            cell.setdefault(metric, []).append(value)
        took[name, what] = time.perf_counter() - began
        if path:
            write(kept, path)
        left = sum(took.get(coming, fmean(took.values())) for coming in plan[number + 1 :])
        share = f", {found['update_share']:.0%} of it learning" if "update_share" in found else ""
        print(f"{name}, {what}: {found['fps']:,.0f} steps/s{share}; {timedelta(seconds=round(left))} left", flush=True)
    return kept


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process, because JAX fixes its use of cores and memory once per process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(function, *arguments).result()


def device_kind() -> str:
    return jax.devices()[0].device_kind


def load_results(path: Path | None) -> dict[str, Any]:
    """Earlier results from the file, if any. One file cannot mix measurements of different machines."""
    here = {
        "machine": machine.describe(),
        "device": in_own_process(device_kind),
        "versions": {name: version(name) for name in ("jax", "envpool", "gymnasium")},
    }
    kept = read(path) if path and path.exists() else here | {"tasks": {}}
    if any(kept[name] != value for name, value in here.items()):
        sys.exit(f"{path} was measured on another machine or with other versions; choose another file with --results")
    return kept


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write(kept: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def print_table(kept: dict[str, Any]) -> None:
    """Print one row per measured task."""
    versions = ", ".join(f"{name} {number}" for name, number in kept["versions"].items())
    print(f"{machine.in_words(kept['machine'])}; learning on {kept['device']}; {versions}. Steps a second:\n")
    columns = ["task", "environments", ENGINE, "collecting"]
    columns += [column for name in METHODS for column in (name, "learning", "loop cost")] + ["claim"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in TASKS:
        cells = kept["tasks"].get(name, {})
        if all(what in cells for what in (ENGINE, *METHODS)):
            print(f"| {' | '.join(row_of(name, cells))} |")
    print(
        "\nCollecting: the policy acts, nothing learns. Learning: its share of the time. Loop cost: the time of a step "
        "end to end less that of the engine alone, in times of the latter. "
        f"Claim: a loop cost below 1 where the engine alone makes fewer than {FAST:,} steps a second."
    )


def row_of(name: str, cells: dict[str, Any]) -> list[str]:
    engine = median(cells[ENGINE]["fps"])
    collecting = median(fps for what in METHODS for fps in cells[what]["collect_fps"])
    row = [name, f"{cells['num_envs']} × {cells['engine']}", f"{engine:,.0f}", f"{collecting:,.0f}"]
    costs = [engine / median(cells[what]["fps"]) - 1 for what in METHODS]
    for what, cost in zip(METHODS, costs, strict=True):
        share = f"{median(cells[what]['update_share']):.0%}"
        if "environment_share" in cells[what]:
            share += f", environments {median(cells[what]['environment_share']):.0%}"
        row += [f"{median(cells[what]['fps']):,.0f}", share, f"{cost:.2f}"]
    return [*row, "–" if engine >= FAST else "holds" if max(costs) < 1 else "fails"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", metavar="NAME", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        return print_table(read(options.results or RESULTS))
    path = options.results or (None if options.quick else RESULTS)
    print_table(measure(options.tasks, 1 if options.quick else options.repetitions, options.quick, path))


if __name__ == "__main__":
    main()
