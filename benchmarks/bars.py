"""Evaluates a comparison: medians, ratios, and whether our performance targets are met, as Markdown.

A measurement is the JSON line of a script in `peers/`, with a `name` of the form `task: contender` and `threads`, which
is "all" or "one". This module measures nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

Measurement = dict[str, Any]

PENDULUM, LUNAR_LANDER, HALF_CHEETAH = "Pendulum-v1", "LunarLander-v3", "HalfCheetah-v5"
BASELINE = "Stable-Baselines3 PPO"
FIRST_RUN = f"{PENDULUM}: first run"


def at_best_threads(measurements: list[Measurement]) -> list[Measurement]:
    """The measurements of every contender at its faster thread setting, by median."""
    speeds: dict[str, dict[str, list[float]]] = {}
    for m in measurements:
        speeds.setdefault(m["name"], {}).setdefault(m["threads"], []).append(m.get("steps_per_second", 0.0))
    best = {name: max(settings, key=lambda threads: median(settings[threads])) for name, settings in speeds.items()}
    return [m for m in measurements if m["threads"] == best[m["name"]]]


def values(measurements: list[Measurement], name: str, key: str) -> list[float]:
    """All measured values of one quantity of a contender."""
    return [m[key] for m in measurements if m["name"] == name and key in m]


def typical(measurements: list[Measurement], name: str, key: str = "steps_per_second") -> float | None:
    """The median of a quantity; None if it was not measured."""
    found = values(measurements, name, key)
    return median(found) if found else None


def ratio(measurements: list[Measurement], name: str, other: str) -> float | None:
    """The speed of a contender divided by that of another."""
    ours, theirs = typical(measurements, name), typical(measurements, other)
    return ours / theirs if ours and theirs else None


def most(measurements: list[Measurement], name: str, key: str) -> float | None:
    """The highest value of a quantity."""
    return max(values(measurements, name, key), default=None)


@dataclass(frozen=True)
class Bar:
    """A performance target: the value that is required, and a goal beyond it."""

    what: str
    required: float
    goal: float
    measure: Callable[[list[Measurement]], float | None]
    unit: str = " ×"
    less_is_better: bool = False

    def verdict(self, value: float | None) -> str:
        """Which of the two values was reached."""
        if value is None:
            return "not measured"
        sign = -1 if self.less_is_better else 1
        if sign * value >= sign * self.goal:
            return "goal"
        return "required" if sign * value >= sign * self.required else "no"


def _faster(what: str, required: float, goal: float, name: str, other: str) -> Bar:
    return Bar(what, required, goal, lambda measurements: ratio(measurements, name, other))


def _pendulum(contender: str) -> str:
    return f"{PENDULUM}: {contender}"


_MCPO, _PPO, _SB3 = _pendulum("Trustax MCPO N=10"), _pendulum("Trustax PPO"), _pendulum(BASELINE)
BARS = [
    _faster("MCPO N=10 / Stable-Baselines3 PPO", 14, 25, _MCPO, _SB3),
    _faster("PPO / Stable-Baselines3 PPO", 28, 40, _PPO, _SB3),
    _faster("PPO / rejax PPO", 1.2, 2, _PPO, _pendulum("rejax PPO")),
    _faster("MCPO N=10, 4 seeds / Stable-Baselines3 PPO", 26, 45, _pendulum("Trustax MCPO N=10, 4 seeds"), _SB3),
    _faster("MCPO N=40 / N=5", 0.85, 0.95, _pendulum("Trustax MCPO N=40"), _pendulum("Trustax MCPO N=5")),
    _faster("MCPO N=10 / our PPO", 0.55, 0.7, _MCPO, _PPO),
    _faster(
        "LunarLander: MCPO N=10 / Stable-Baselines3 PPO",
        7,
        12,
        f"{LUNAR_LANDER}: Trustax MCPO N=10",
        f"{LUNAR_LANDER}: {BASELINE}",
    ),
    Bar("peak memory of MCPO N=10", 600, 400, lambda ms: most(ms, _MCPO, "peak_memory_mb"), " MB", True),
    Bar("second run: command to first numbers", 3, 3, lambda ms: typical(ms, FIRST_RUN, "warm_seconds"), " s", True),
]


def bars_table(measurements: list[Measurement], bars: list[Bar], title: str = "measure") -> str:
    """Every target, and whether it was met."""
    lines = [f"| {title} | required | goal | measured | met |", "|---|---|---|---|---|"]
    for bar in bars:
        value = bar.measure(measurements)
        shown = "" if value is None else f"{value:.3g}{bar.unit}"
        lines.append(
            f"| {bar.what} | {bar.required:g}{bar.unit} | {bar.goal:g}{bar.unit} | {shown} | {bar.verdict(value)} |"
        )
    return "\n".join(lines)


class Row(NamedTuple):
    """One contender in the table and the plot of speeds."""

    contender: str
    median: float
    lowest: float
    highest: float
    times_baseline: float | None
    update_share: float | None
    peak_memory_mb: float
    threads: str


def ranking(measurements: list[Measurement]) -> dict[str, list[Row]]:
    """The contenders by task, fastest first."""
    best = at_best_threads(measurements)
    tasks: dict[str, list[Row]] = {}
    for name, threads in {m["name"]: m["threads"] for m in best if "steps_per_second" in m}.items():
        task, _, contender = name.partition(": ")
        speeds = values(best, name, "steps_per_second")
        row = Row(
            contender,
            median(speeds),
            min(speeds),
            max(speeds),
            ratio(best, name, f"{task}: {BASELINE}"),
            typical(best, name, "update_share"),
            max(values(best, name, "peak_memory_mb")),
            threads,
        )
        tasks.setdefault(task, []).append(row)
    return {task: sorted(rows, key=lambda row: -row.median) for task, rows in tasks.items()}


def speeds_table(measurements: list[Measurement]) -> str:
    """The environment steps per second of every contender."""
    lines = [
        f"| task | contender | steps/s | lowest to highest | / {BASELINE} | in updates | peak memory | threads |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, rows in ranking(measurements).items():
        for row in rows:
            times = "" if row.times_baseline is None else f"{row.times_baseline:.2f} ×"
            share = "" if row.update_share is None else f"{row.update_share:.0%}"
            lines.append(
                f"| {task} | {row.contender} | {row.median:,.0f} | {row.lowest:,.0f} to {row.highest:,.0f} | {times} "
                f"| {share} | {row.peak_memory_mb:.0f} MB | {row.threads} |"
            )
    return "\n".join(lines)


def first_run_line(measurements: list[Measurement]) -> str:
    """One sentence on how long a user waits for the first numbers."""
    cold, warm = (typical(measurements, FIRST_RUN, f"{cache}_seconds") for cache in ("cold", "warm"))
    if cold is None or warm is None:
        return "How long a user waits for the first numbers was not measured."
    return (
        f"`trustax train mcpo` shows its first numbers after {cold:.1f} s, from the second run on after {warm:.1f} s."
    )
