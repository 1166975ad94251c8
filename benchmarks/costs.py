"""Measures what settings cost: MCPO's switch, callbacks, and one value of a setting for each learner.

usage: python benchmarks/costs.py             measure, and save the results
       python benchmarks/costs.py --table     print the saved results as Markdown
       python benchmarks/costs.py --write     write them into docs/benchmarks.md

Options: --repetitions COUNT and --results FILE. --quick uses tiny runs to check that everything runs; it saves only to
the file given by --results.

All variants run in one process and take turns. The time of an iteration is the time between two calls of a callback, so
it includes logging and the other callbacks; the first iterations are warm-up. A repetition gives the median speed of
its iterations, and the table has the medians of the repetitions.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import machine
import pages

import trustax as tx

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "benchmarks" / "costs.json"
MARKER = "<!-- python benchmarks/costs.py --table -->\n"
WARM_UP = 2
"""Iterations that are not counted."""
RATES = tuple(rate * 1e-4 for rate in (1, 1.5, 2, 2.5, 3, 3.5, 4, 5))


class Variant(NamedTuple):
    """A run to measure; the first variant of a part is the one that the others are compared with."""

    part: str
    name: str
    algorithm: Any
    num_seeds: int = 1
    callbacks: Callable[[], Sequence[Any]] = tuple
    most: float | None = None
    """the largest time that is accepted, in times of the first variant"""


def variants(**small: Any) -> list[Variant]:
    """All variants; `small` overrides settings of the algorithms."""
    ppo = tx.PPO(**small)
    switch, callbacks, values = "MCPO on Pendulum", "PPO with callbacks", "PPO with eight learners"
    return [
        Variant(switch, "switch every epoch", tx.MCPO(switch_every="epoch", **small)),
        Variant(switch, "switch every minibatch", tx.MCPO(switch_every="minibatch", **small)),
        Variant(callbacks, "none", ppo),
        Variant(callbacks, "a function that does nothing", ppo, 1, lambda: [lambda iteration: None], 1.01),
        Variant(callbacks, "StopAtReturn", ppo, 1, lambda: [tx.StopAtReturn(value=1e9)], 1.01),
        Variant(callbacks, "KeepAgents, rarely", ppo, 1, lambda: [tx.KeepAgents(every=10**9)], 1.01),
        Variant(values, "eight seeds", ppo, 8),
        Variant(values, "eight learning rates", tx.PPO(learning_rate=RATES, **small), 8, tuple, 1.1),
    ]


def speed(variant: Variant, iterations: int, **small: Any) -> float:
    """Environment steps per second of all learners together, from the median iteration."""
    times: list[float] = []
    run = tx.Run(algorithm=variant.algorithm, env_id="native:Pendulum-v1", num_seeds=variant.num_seeds, **small)
    steps = (WARM_UP + iterations) * run.batch_size
    run = tx.Run(**vars(run) | {"total_timesteps": steps})
    clock = lambda iteration: times.append(time.perf_counter())  # noqa: E731
    with TemporaryDirectory() as folder:
        tx.train(run, run_dir=Path(folder) / "run", loggers=[], quiet=True, callbacks=[clock, *variant.callbacks()])
    seconds = [later - earlier for earlier, later in pairwise(times)][WARM_UP - 1 :]
    return run.num_seeds * run.batch_size / median(seconds)


def measure(repetitions: int, quick: bool) -> dict[str, Any]:
    small = {"num_minibatches": 2, "num_epochs": 1, "hidden_sizes": (8,)} if quick else {}
    sizes = {"num_envs": 2, "horizon": 16} if quick else {}
    listed = variants(**small)
    speeds: dict[tuple[str, str], list[float]] = {(one.part, one.name): [] for one in listed}
    for repetition in range(repetitions):
        for one in listed:
            speeds[one.part, one.name].append(speed(one, 2 if quick else 20, **sizes))
            print(f"[{repetition + 1}/{repetitions}] {one.part}, {one.name}: {speeds[one.part, one.name][-1]:,.0f}")
    return {
        "machine": machine.describe(),
        "versions": {"jax": version("jax")},
        "measurements": [
            {"part": part, "variant": name, "steps_per_second": [round(value, 1) for value in values]}
            for (part, name), values in speeds.items()
        ],
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown: speeds, and times relative to the first variant of each part."""
    medians = {(m["part"], m["variant"]): median(m["steps_per_second"]) for m in results["measurements"]}
    first: dict[str, float] = {}
    lines = ["| | | steps/s | time | at most | met |", "|---|---|---|---|---|---|"]
    for one in variants():
        if (one.part, one.name) not in medians:
            continue
        value = medians[one.part, one.name]
        ratio = first.setdefault(one.part, value) / value
        bar = "" if one.most is None else f"{one.most:.2f}"
        met = "" if one.most is None else "yes" if ratio <= one.most else "no"
        lines.append(f"| {one.part} | {one.name} | {value:,.0f} | {ratio:.3f} | {bar} | {met} |")
    where = f"{machine.in_words(results['machine'])}; jax {results['versions']['jax']}."
    note = "Time: that of a step, in times of the first variant of its group."
    return "\n".join([where, "", *lines, "", note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = options.results or (None if options.quick else RESULTS)
    if options.table or options.write:
        text = table(json.loads((path or RESULTS).read_text(encoding="utf-8")))
        if options.write:
            pages.write(pages.BENCHMARKS, MARKER, text)
        return print(text)
    results = measure(1 if options.quick else options.repetitions, options.quick)
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
