"""Compares the engines of sweeps: 24 short runs by processes on this machine, and by a Ray cluster on this machine.

usage: python benchmarks/engines.py             measure, and save the results
       python benchmarks/engines.py --table     print the saved results as Markdown
       python benchmarks/engines.py --write     write them into docs/benchmarks.md

Options: --repetitions COUNT and --results FILE. --quick uses two tiny runs to check that everything works; it saves
only to the file given by --results.

The engines take turns. Each sweep runs in a process of its own, which is timed from its start to its end: with Ray this
includes starting and stopping the cluster. A sweep before the first one fills the compilation cache. All runs have the
same program; they differ in a setting without effect.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import machine
import pages

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "benchmarks" / "engines.json"
MARKER = "<!-- python benchmarks/engines.py --table -->\n"
ENGINES = ("local", "ray")
BAR = 1.15
SWEEP = """
import json, sys
import trustax as tx

engine, folder, num_runs, settings = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
result = tx.sweep(
    "mcpo", "native:Pendulum-v1", folder=folder, engine=engine, quiet=True, write_interval=list(range(1, num_runs + 1)),
    **settings,
)
assert not result.failures, result.failures
assert len(result.finished) == num_runs
"""


class Sizes(NamedTuple):
    num_runs: int = 24
    steps: int = 10 * 8192
    num_envs: int = 4
    horizon: int = 2048


QUICK = Sizes(num_runs=2, steps=256, num_envs=2, horizon=64)


def seconds(engine: str, sizes: Sizes) -> float:
    """The time of one sweep in an empty folder."""
    settings = {"total_timesteps": sizes.steps, "num_envs": sizes.num_envs, "horizon": sizes.horizon}
    with TemporaryDirectory() as folder:
        words = [sys.executable, "-c", SWEEP, engine, f"{folder}/sweep", str(sizes.num_runs), json.dumps(settings)]
        began = time.perf_counter()
        subprocess.run(words, check=True)
        return time.perf_counter() - began


def measure(repetitions: int, sizes: Sizes) -> dict[str, Any]:
    """Time the engines in turns."""
    load = os.getloadavg()[0]
    seconds("local", sizes._replace(num_runs=1))
    times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for repetition in range(repetitions):
        for engine in ENGINES:
            times[engine].append(round(seconds(engine, sizes), 2))
            print(f"[{repetition + 1}/{repetitions}] {engine}: {times[engine][-1]:.1f} s", flush=True)
    return {
        "machine": machine.describe(),
        "versions": {name: version(name) for name in ("jax", "ray")},
        "load_before": round(load, 2),
        "sizes": sizes._asdict(),
        "seconds": times,
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    sizes, versions = Sizes(**results["sizes"]), results["versions"]
    local = median(results["seconds"]["local"])
    lines = [
        f"{machine.in_words(results['machine'])}; jax {versions['jax']}, ray {versions['ray']}.",
        f"{sizes.num_runs} runs of MCPO on native Pendulum with {sizes.steps:,} steps each.",
        "",
        "| engine | seconds, median | lowest to highest | / local | at most | met |",
        "|---|---|---|---|---|---|",
    ]
    for engine, times in results["seconds"].items():
        ratio = median(times) / local
        bar, met = ("", "") if engine == "local" else (f"{BAR}", "yes" if ratio <= BAR else "no")
        spread = f"{min(times):.1f} to {max(times):.1f}"
        lines.append(f"| {engine} | {median(times):.1f} | {spread} | {ratio:.3f} | {bar} | {met} |")
    return "\n".join(lines)


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
    results = measure(1 if options.quick else options.repetitions, QUICK if options.quick else Sizes())
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
