"""Compares our speed with other libraries: all contenders train the same in turns, each in its own process.

usage: python benchmarks/compare.py                   measure everyone five times; half an hour on two cores
       python benchmarks/compare.py --only "rejax" "Trustax PPO"     only names that contain one of these parts
       python benchmarks/compare.py --quick           short rollouts, once each, to check that everything runs
       python benchmarks/compare.py --table           print the saved results as Markdown
       python benchmarks/compare.py --draw            plot the saved results to docs/benchmarks.png

A full run is saved in results/benchmarks/compare.json; --quick and --only save only to the file given by --results. The
peers are installed into .venv-peers on the first call. --torch sets the requirement for PyTorch; its CPU build is
enough: `--torch "torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"`.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import machine
from bars import BARS, Measurement, Row, at_best_threads, bars_table, first_run_line, ranking, speeds_table
from contenders import PACKAGES, PEERS, ROOT, SETTINGS, Contender, contenders, install_peers, measure

RESULTS = ROOT / "results" / "benchmarks" / "compare.json"
PICTURE = ROOT / "docs" / "benchmarks.png"
QUICK = {"horizon": 256, "num_epochs": 2, "iterations": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="PART")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--torch", default=PACKAGES["torch"], metavar="REQUIREMENT")
    options = parser.parse_args()
    if options.table or options.draw:
        kept = json.loads((options.results or RESULTS).read_text(encoding="utf-8"))
        return draw(kept["measurements"], PICTURE) if options.draw else print(report(kept))
    chosen = [c for c in contenders() if not options.only or any(part in c.name for part in options.only)]
    if any(contender.python == PEERS for contender in chosen):
        install_peers(options.torch)
    settings = QUICK if options.quick else {}
    is_full_run = not (options.quick or options.only or options.results)
    path = RESULTS if is_full_run else options.results
    outcome = {"machine": machine.describe(), "settings": SETTINGS | settings, "measurements": []}
    for measurement in take_turns(chosen, 1 if options.quick else options.repetitions, settings):
        outcome["measurements"].append(measurement)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    print(report(outcome))
    if is_full_run:
        draw(outcome["measurements"], PICTURE)


def take_turns(chosen: list[Contender], repetitions: int, settings: dict[str, Any]) -> Iterator[Measurement]:
    """Measure everyone once, then everyone again, so that a temporary slowdown of the machine affects all."""
    durations: dict[tuple[str, str], float] = {}
    turns = [contender for _ in range(repetitions) for contender in chosen]
    with tempfile.TemporaryDirectory() as folder:
        for number, contender in enumerate(turns, 1):
            began = time.monotonic()
            measurement = measure(contender, settings, folder)
            durations[contender.name, contender.threads] = time.monotonic() - began
            unknown = fmean(durations.values())
            left = sum(durations.get((turn.name, turn.threads), unknown) for turn in turns[number:])
            print(
                f"[{number}/{len(turns)}] {summary_line(measurement)}; {timedelta(seconds=round(left))} left",
                flush=True,
            )
            yield measurement


def summary_line(measurement: Measurement) -> str:
    """One line about a measurement."""
    who = f"{measurement['name']} ({measurement['threads']} threads)".replace("one threads", "one thread")
    if "failed" in measurement:
        return f"{who} failed: {measurement['failed']}"
    if "steps_per_second" in measurement:
        return f"{who}: {measurement['steps_per_second']:,.0f} steps/s, {measurement['peak_memory_mb']:.0f} MB"
    return f"{who}: {measurement['cold_seconds']:.1f} s, then {measurement['warm_seconds']:.1f} s"


def report(outcome: dict[str, Any]) -> str:
    """All tables of a comparison as Markdown."""
    measurements = outcome["measurements"]
    versions: dict[str, set[str]] = {}
    for measurement in measurements:
        for package, number in measurement.get("versions", {}).items():
            versions.setdefault(package, set()).add(number)
    packages = ", ".join(f"{package} {' and '.join(sorted(versions[package]))}" for package in sorted(versions))
    paragraphs = [
        f"{machine.in_words(outcome['machine'])}; {packages}.",
        bars_table(at_best_threads(measurements), BARS),
        speeds_table(measurements),
        first_run_line(measurements),
    ]
    return "\n\n".join(paragraphs)


def draw(measurements: list[Measurement], path: Path) -> None:
    """Draw one panel per task and one bar per contender, ours in color; lines span the lowest to highest value."""
    import matplotlib
    from matplotlib.figure import Figure

    from trustax.plotting.curves import FAINT_INK, STYLE

    tasks = ranking(measurements)
    heights = [len(rows) + 1 for rows in tasks.values()]
    with matplotlib.rc_context(STYLE | {"axes.grid.axis": "x", "axes.titlepad": 8}):
        figure = Figure(figsize=(8.0, 0.34 * sum(heights) + 0.8))
        panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (task, rows) in zip(panels, tasks.items(), strict=True):
            axes.set_title(task)
            _draw_task(axes, rows)
        explanation = (
            "environment steps per second, updates included  ·  × Stable-Baselines3  ·  line: lowest to highest"
        )
        figure.supxlabel(explanation, color=FAINT_INK, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    print(path)


def _draw_task(axes: Any, rows: list[Row]) -> None:
    from matplotlib.ticker import FuncFormatter

    from trustax.cli.formatting import short_count
    from trustax.plotting.curves import COLORS, FAINT_INK, INK

    for place, row in enumerate(rows):
        ours = row.contender.startswith("Trustax")
        axes.barh(place, row.median, height=0.68, color=COLORS[0] if ours else "#b9b9b9")
        axes.plot([row.lowest, row.highest], [place, place], color=INK, linewidth=1)
        times = "" if row.times_baseline is None else f"{row.times_baseline:.3g} ×"
        axes.annotate(
            times, (row.highest, place), (6, 0), textcoords="offset points", va="center", color=FAINT_INK, fontsize=9
        )
    axes.set_yticks(range(len(rows)), [row.contender for row in rows])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


if __name__ == "__main__":
    main()
