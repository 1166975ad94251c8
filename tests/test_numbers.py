"""Numbers in the documentation are those of the outcomes that are kept under results/."""

import json
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.test_benchmarks import bars, scaled
from trustax.algorithms import MCPO
from trustax.algorithms.mcpo.unrewarded import FADING
from trustax.cli.formatting import short_count
from trustax.paper.results import digest, read_file
from trustax.paper.tables.layout import PaperTable
from trustax.paper.tables.tables import table

fidelity, learning, rounds, targets, unseen = (
    import_module(name) for name in ("fidelity", "learning", "rounds", "targets", "unseen")
)
ROOT = Path(__file__).parent.parent
README, LEARNING, BENCHMARKS, FIDELITY = (
    (ROOT / page).read_text(encoding="utf-8")
    for page in ("README.md", "docs/learning.md", "docs/benchmarks.md", "docs/fidelity.md")
)
SPEEDS = json.loads((ROOT / "results" / "benchmarks" / "compare.json").read_text(encoding="utf-8"))["measurements"]
PROTOCOLS = {"terminate": "paper", "bootstrapped": "bootstrapped"}


def rows_after(page: str, heading: str) -> list[list[str]]:
    """The cells of a page's table that begins with this line, without its first two lines."""
    lines = page[page.index(heading) :].splitlines()
    body = lines[2 : next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


@cache
def paper_table(name: str, protocol: str) -> PaperTable:
    return table(name, ROOT / "results", protocol)


def test_a_kept_outcome_is_named_after_its_run_and_replaced_by_the_same_run() -> None:
    files = [path for protocol in PROTOCOLS.values() for path in (ROOT / "results" / protocol).glob("*.json")]
    assert len(files) > 100
    assert [path.name for path in files if path.stem.split("__")[-2] != digest(read_file(path).run)] == []


@pytest.mark.parametrize("script", ["compare", "breakdown", "costs", "environments", "launches", "scaling"])
def test_a_page_has_the_tables_that_its_script_prints(script: str) -> None:
    command = [sys.executable, ROOT / "benchmarks" / f"{script}.py", "--table"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pages = BENCHMARKS + (ROOT / "docs" / "benchmarks-details.md").read_text(encoding="utf-8")
    missing = [line for line in printed.splitlines() if line not in pages]
    assert not missing, f"docs/benchmarks.md or its details should have what benchmarks/{script}.py --table prints"


def test_the_summary_of_speeds_has_the_medians() -> None:
    rows = rows_after(BENCHMARKS, "| | environment steps/s")
    ranking = {row.contender: row for row in bars.ranking(SPEEDS)["Pendulum-v1"]}
    assert rows == [
        [name, f"{round(ranking[name].median, -2):,.0f}", f"{ranking[name].times_baseline:.1f}"] for name, *_ in rows
    ]
    assert len(rows) == 7
    tasks = ("Pendulum-v1", "LunarLander-v3")
    small, large = (bars.most(SPEEDS, f"{task}: Trustax MCPO N=10", "peak_memory_mb") for task in tasks)
    needed = f"MCPO N=10 needs {small:.0f} MB on Pendulum and {large:.0f} MB on LunarLander."
    assert f"{bars.first_run_line(SPEEDS)} {needed}" in " ".join(BENCHMARKS.split())


def test_the_summary_of_gpu_speeds_has_the_kept_results() -> None:
    path = ROOT / "results" / "benchmarks" / "scaling-nvidia-h200.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    wanted = [(10, scaled.MCPO), (256, scaled.MCPO), (256, scaled.PPO), (256, scaled.REJAX)]
    ten, many, ppo, rejax = (short_count(scaled.speed(kept, "seeds", size, method)) for size, method in wanted)
    page = " ".join(BENCHMARKS.split())
    assert f"MCPO N=10 makes {ten} steps/s with 10 seeds and {many} with 256" in page
    assert f"with 256, our PPO makes {ppo} and rejax's {rejax}." in page


def test_the_readmes_speeds_are_ratios_of_the_medians() -> None:
    ranking = {row.contender: row for row in bars.ranking(SPEEDS)["Pendulum-v1"]}
    ours, rejax = ranking["Trustax PPO"], ranking["rejax PPO"]
    mcpo = ranking["Trustax MCPO N=10"]
    assert round(mcpo.median / ours.median, 1) == 0.5
    said = f"our PPO is {ours.times_baseline:.0f} times as fast as Stable-Baselines3's and "
    said += f"{ours.median / rejax.median:.1f} times as fast as rejax's. MCPO runs at half of our PPO's speed, "
    said += f"{mcpo.times_baseline:.0f} times that of Stable-Baselines3's."
    assert said in " ".join(README.split())


def test_all_methods_are_compared_with_default_settings() -> None:
    assert learning.table() in LEARNING, "docs/learning.md should have what benchmarks/learning.py prints"
    assert "–" not in learning.table(), "a cell has not run"


def test_the_tasks_outside_the_paper_are_compared() -> None:
    assert unseen.table() in LEARNING, "docs/learning.md should have what benchmarks/unseen.py prints"


def test_the_targets_are_compared_with_the_runs() -> None:
    assert targets.table() in LEARNING, "docs/learning.md should have what benchmarks/targets.py prints"


def test_the_pooled_returns_are_those_of_the_experiment() -> None:
    cells = [("Pendulum-v1", "paper"), ("MiniGrid-UnlockPickup-v0", "paper")]
    columns = [1 + fidelity.CHOICE_CELLS.index(cell) for cell in cells]
    rows = {row[0]: row for row in rows_after(fidelity.choice_table(), "| reading |")}
    (pendulum, pickup), (ppo_pendulum, ppo_pickup) = (
        [rows[name][column].rstrip(")").rpartition(" (") for column in columns] for name in ("**MCPO()**", "PPO")
    )
    said = (
        f"`MCPO()` has {pendulum[0]} on Pendulum (mean and standard error of {pendulum[2]} runs; "
        f"PPO {ppo_pendulum[0]}, {ppo_pendulum[2]} runs) and {pickup[0]} on UnlockPickup ({pickup[2]} runs; "
        f"PPO {ppo_pickup[0]}, {ppo_pickup[2]} runs) where time limits terminate."
    )
    assert said in " ".join(FIDELITY.split())


def test_the_pages_count_the_baselines_that_match() -> None:
    shown = paper_table("table-1-full", "paper")
    tasks = [number for number, column in enumerate(shown.columns) if "best" not in column.key]
    baselines = [row for row in shown.rows if not row.is_variant and not row.name.startswith("MCPO")]
    verdicts = [row.entries[task].verdict for row in baselines for task in tasks]
    assert "not run" not in verdicts
    said = f"We ran all {len(verdicts)} baseline results of the paper's Table 1 under its protocol; "
    matching = verdicts.count("matches")
    assert f"{said}{matching} match: the 95% intervals overlap." in " ".join(LEARNING.split())
    assert f"{said}for {matching} of them our 95% interval overlaps the paper's." in " ".join(README.split())


README_TASKS = {
    "HalfCheetah, 10M steps": ("table-2", "half-cheetah", 0),
    "Walker2d, 10M steps": ("table-2", "walker2d", 0),
    "Hopper, 10M steps": ("table-2", "hopper", 0),
    "Unlock, 100k steps": ("minigrid", "unlock", 2),
    "UnlockPickup, 1M steps": ("minigrid", "unlock-pickup", 2),
}
"""The rows of the README's table that are tasks: the paper's table and column, and the number of decimals."""


def score_cells(protocol: str) -> list[str]:
    """A row of the README's table: the scores of `MCPO()` and of the next method over the tasks of Table 1."""
    scores = {row.name: row.interquartile_mean for row in paper_table("table-1-full", protocol).aggregates}
    first, second, *_ = sorted(scores, key=lambda name: scores[name].value, reverse=True)
    assert first == "MCPO N=10 default"
    return [str(scores[first]), f"{second}: {scores[second]}", ""]


def task_cells(name: str, column: str, digits: int) -> list[str]:
    """A row of the README's table: the means of `MCPO()` and of the best other method that ran in full."""
    shown = paper_table(name, "bootstrapped")
    place = [one.key for one in shown.columns].index(column)
    entries = {row.name: row.entries[place] for row in shown.rows}
    means = {name: entry.ours.mean for name, entry in entries.items() if entry.ours and entry.verdict != "short"}
    best = max((name for name in means if not name.startswith("MCPO")), key=means.__getitem__)
    ours = next(mean for name, mean in means.items() if re.fullmatch(r"MCPO N=\d+ default", name))
    target = entries["MCPO" if name == "table-2" else "MCPO N=10"].target
    assert target is not None
    paper = f"{target.mean:,.0f} ± {target.std:,.0f}" if name == "table-2" else f"about {target.mean}"
    title = "`PPO()`" if best == "PPO ε=0.2 default" else best
    return [f"{ours:,.{digits}f}", f"{title}: {means[best]:,.{digits}f}", paper]


def test_the_readmes_results_are_those_of_the_runs() -> None:
    rows = {name: cells for name, *cells in rows_after(README, "| | `MCPO()` |")}
    scores = {f"Table 1, {limits}, score": score_cells(protocol) for limits, protocol in PROTOCOLS.items()}
    assert rows == scores | {name: task_cells(*cell) for name, cell in README_TASKS.items()}


@pytest.mark.parametrize("page", fidelity.PAGES)
def test_the_pages_on_fidelity_have_the_tables_that_their_script_makes(page: str) -> None:
    assert fidelity.written(page) == fidelity.PAGES[page].read_text(encoding="utf-8"), (
        "run python benchmarks/fidelity.py --write"
    )


def test_the_page_on_readings_applies_its_rule() -> None:
    first, second = (list(fidelity.mean_ranks(number).items()) for number in (1, 2))
    assert [name for name, rank in first if rank < first[0][1] + 0.5] == ["cap to 0.01", "epoch 3"]
    assert [name for name, rank in second if rank < second[0][1] + 0.5] == [fidelity.CHOSEN]
    chosen = rounds.READINGS[fidelity.CHOSEN]
    assert (chosen.kl_cost_max, chosen.cap_target) == (MCPO().kl_cost_max, MCPO().kl_cost_max_target)
    assert chosen == rounds.Reading(cap_target=chosen.cap_target), "it differs from the paper in one value"
    assert rounds.READINGS["adaptive, ∝batch, auto"] == chosen._replace(by_batch=2.0, auto=1.0), (
        "what later rounds changed"
    )
    assert (MCPO().kl_target_growth, MCPO().switch_every) == (1.0, "auto")
    default = rounds.READINGS[fidelity.CHOICES["**MCPO()**"]]
    sharpness = MCPO().trust_region_sharpness
    growth = MCPO().kl_target_action_growth
    assert MCPO().initial_log_std == "auto"
    assert default == chosen._replace(
        by_batch=2.0, auto=2.0, unrewarded=FADING, sharpness=sharpness, shared_std=1.0, by_actions=growth
    )
    assert MCPO().unrewarded_advantages == "scaled"


def test_readings_with_the_same_mean_share_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(**returns: float) -> dict[str, dict[str, list[float]]]:
        return {name: {"returns": [value - 1, value + 1]} for name, value in (returns | {"PPO": 9.0}).items()}

    cells = {("a", "paper"): cell(x=5.0, y=5.0, z=1.0), ("b", "paper"): cell(x=1.0, y=2.0, z=3.0, sometimes=4.0)}
    monkeypatch.setattr(fidelity, "readings", lambda number: cells)
    assert fidelity.mean_ranks(1) == {"y": 1.75, "z": 2.0, "x": 2.25}
