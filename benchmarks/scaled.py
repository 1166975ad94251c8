"""Tables and a plot of the results of `scaling.py` on all devices, and the performance targets of one GPU.

A measurement has its `part`, the varied `size`, the `method`, and either `steps_per_second` or why it `failed`. This
module measures nothing.
"""

from pathlib import Path
from statistics import median
from typing import Any

from bars import Bar, Measurement, bars_table

MCPO, PPO, REJAX = "MCPO", "PPO", "rejax"
METHODS = (MCPO, PPO, REJAX)
PARTS = {
    "memory": "policies in the memory",
    "seeds": "seeds",
    "environments": "environments of each seed",
    "horizon": "steps of a rollout",
}
"""The varied quantities and their labels."""
BARS_OF = {
    "NVIDIA H200": [
        Bar("MCPO N=10, 10 seeds, steps/s", 0.5, 1, lambda ms: _millions(ms, "seeds", 10), " million"),
        Bar("MCPO N=10, 256 seeds, steps/s", 5, 8, lambda ms: _millions(ms, "seeds", 256), " million"),
        Bar("MCPO N=1000 / N=5, one seed", 0.85, 0.95, lambda ms: _ratio(ms, ("memory", 1000), ("memory", 5))),
    ]
}


def speeds(measurements: list[Measurement], part: str, method: str) -> dict[int, float]:
    """Size → median steps per second, without failed measurements."""
    chosen = [m for m in measurements if (m["part"], m["method"]) == (part, method) and "steps_per_second" in m]
    return {m["size"]: median(m["steps_per_second"]) for m in chosen}


def speed(measurements: list[Measurement], part: str, size: int, method: str = MCPO) -> float | None:
    """The median steps per second at one size; None if it was not measured."""
    return speeds(measurements, part, method).get(size)


def _millions(measurements: list[Measurement], part: str, size: int) -> float | None:
    found = speed(measurements, part, size)
    return found / 1e6 if found else None


def _ratio(measurements: list[Measurement], these: tuple[str, int], those: tuple[str, int]) -> float | None:
    ours, theirs = speed(measurements, *these), speed(measurements, *those)
    return ours / theirs if ours and theirs else None


def tables(devices: list[dict[str, Any]]) -> str:
    """The performance targets of devices that have any, and all speeds, as Markdown."""
    bars = [
        bars_table(device["measurements"], BARS_OF[name], name)
        for device in devices
        if (name := device["device"]["name"]) in BARS_OF
    ]
    return "\n\n".join([*bars, *(_table(devices, part) for part in PARTS)])


def _table(devices: list[dict[str, Any]], part: str) -> str:
    """A table with one row per method and device and one column per size."""
    from trustax.cli.formatting import short_count

    sizes = sorted({m["size"] for device in devices for m in device["measurements"] if m["part"] == part})
    lines = [f"| {PARTS[part]} | {' | '.join(map(str, sizes))} |", f"|---{'|---' * len(sizes)}|"]
    for device in devices:
        for method in METHODS:
            if found := speeds(device["measurements"], part, method):
                cells = [short_count(found[size]) if size in found else "" for size in sizes]
                lines.append(f"| {method}, {device['device']['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(devices: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel per part and one line per method and device on log-log axes."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    from trustax.cli.formatting import short_count
    from trustax.plotting.curves import COLORS, LINE_STYLES, STYLE

    with matplotlib.rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(11.0, 3.6))
        panels = figure.subplots(1, len(PARTS), sharey=True)
        lines = {}
        for axes, part in zip(panels, PARTS, strict=True):
            for number, device in enumerate(devices):
                for color, method in zip(COLORS, METHODS, strict=False):
                    if found := speeds(device["measurements"], part, method):
                        label = f"{method}, {device['device']['name']}"
                        style = LINE_STYLES[number % len(LINE_STYLES)]
                        (lines[label],) = axes.plot(
                            list(found), list(found.values()), style, marker="o", markersize=4, color=color
                        )
            axes.set(xscale="log", yscale="log", xlabel=PARTS[part])
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
                axis.set_minor_formatter("")
        panels[0].set_ylabel("environment steps per second")
        figure.legend(lines.values(), lines.keys(), loc="outside upper left", ncols=len(lines))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    print(path)
