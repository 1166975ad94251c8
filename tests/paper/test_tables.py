"""A table shows what was run and what was not, beside the paper's numbers, and calls nothing the same that is not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from trustax.errors import TrustaxError
from trustax.paper.experiments import EXPERIMENTS
from trustax.paper.results import Outcome, write
from trustax.paper.tables.cells import Entry, marked, verdict
from trustax.paper.tables.layout import PaperTable
from trustax.paper.tables.tables import TABLES, part_of, table
from trustax.paper.tables.targets import Target
from trustax.sweeps.statistics import Summary

NAN = float("nan")


def leave(
    results: Path,
    name: str,
    method: str,
    task: str,
    scores: list[float],
    protocol: str = "paper",
    steps: int | None = None,
    seed: int = 0,
    **fields: Any,
) -> None:
    """Leave the outcome of one cell, as if it had been run: the final return of each seed, and what else is given."""
    (cell,) = EXPERIMENTS[name].cells(protocol, [method], [task], len(scores), steps)
    returns = fields.pop("returns", np.array(scores)[:, None])
    last = cell.run.num_iterations * cell.run.batch_size
    outcome = Outcome(
        run=replace(cell.run, seed=seed),
        method=method,
        steps=[last - missing for missing in reversed(range(returns.shape[1]))],
        returns=returns,
        successes=None,
        details={},
        seconds=1.0,
        steps_per_second=1.0,
        versions={},
        hardware="a machine",
    )
    write(replace(outcome, **fields), results / ("cost" if name == "cost" else protocol))


def cell(shown: PaperTable, row: str, column: str) -> Entry:
    (index,) = [index for index, each in enumerate(shown.columns) if each.key == column]
    return {each.name: each.entries for each in shown.rows}[row][index]


def numbers(entry: Entry) -> tuple[float, float, int]:
    assert entry.ours is not None
    return entry.ours.mean, entry.ours.std, entry.ours.count


def printed(shown: PaperTable, width: int) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        shown.print(console)
    return capture.get()


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_shows_not_run_in_every_cell(name: str, tmp_path: Path) -> None:
    shown = table(name, tmp_path / "nowhere", "bootstrapped")
    assert {entry.verdict for row in shown.rows for entry in row.entries} == {"not run"}
    assert "0 in full, 0 short" in shown.state
    assert f"Not run: {'; '.join(row.name for row in shown.rows)}.\n" in shown.markdown()
    assert "| method |" not in shown.markdown()
    assert "not run" in printed(shown, 80)
    assert not shown.aggregates


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([263.0, 262.0, 264.0, 251.0, 275.0], "matches"),
        ([248.8] * 5, "matches"),
        ([248.7] * 5, "differs, worse"),
        ([277.2] * 5, "matches"),
        ([277.3] * 5, "differs, better"),
        ([240.0, 240.0, 240.0, 240.0, 290.0], "matches"),
    ],
)
def test_overlapping_intervals_match(scores: list[float], expected: str, tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", scores)
    entry = cell(table("table-1", tmp_path, "paper"), "MCPO N=10", "lunar-lander")
    # The paper: 263.04 ± 11.48, so 263.04 ± 2.776 · 11.48 / √5 = 248.79 to 277.29.
    assert entry.verdict == expected
    assert numbers(entry) == pytest.approx((np.mean(scores), np.std(scores), 5))


def test_a_number_without_a_spread_gets_no_verdict() -> None:
    assert verdict((0.0, 1.0), None) == verdict((0.0, 1.0), Target(131.19)) == ""


def test_a_cell_counts_the_seeds_that_solve_the_task(tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [200.0, 199.9, 260.0])
    shown = table("table-1", tmp_path, "paper")
    entry, best = (cell(shown, "MCPO N=10", f"lunar-lander{suffix}") for suffix in ("", ", best"))
    assert (entry.solved, best.solved) == (2, None)
    assert entry.interval is not None
    assert 199.9 <= entry.interval[0] < 219.97 < entry.interval[1] <= 260.0
    assert "219.97 ± 28.31 (2/3)<br>[199.9" in shown.markdown()
    assert "they end at −250.0 (pendulum), 200.0 (lunar-lander), 250.0 (bipedal-walker) or above" in shown.markdown()


def test_a_run_with_fewer_steps_is_marked_short_with_its_steps(tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [263.0, 263.0], steps=500_000)
    shown = table("table-1", tmp_path, "paper")
    entry = cell(shown, "MCPO N=10", "lunar-lander")
    assert (entry.verdict, entry.says()) == ("short", "short, 500k")
    assert "24 cells: 0 in full, 1 short, 23 not run. 1 of them with fewer than 5 seeds." in shown.state
    assert "short, 500k" in shown.markdown()


def test_the_paper_length_counts_if_present_otherwise_the_longest(tmp_path: Path) -> None:
    for steps, score in ((400_000, 1.0), (800_000, 2.0)):
        leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [score], steps=steps)
    assert cell(table("table-1", tmp_path, "paper"), "MCPO N=10", "lunar-lander").ours == Summary(2.0, 0.0, 1)
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [9.0], steps=2_000_000)
    longer = cell(table("table-1", tmp_path, "paper"), "MCPO N=10", "lunar-lander")
    assert (longer.ours, longer.choice) == (Summary(9.0, 0.0, 1), "2M steps")
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [3.0])
    exact = cell(table("table-1", tmp_path, "paper"), "MCPO N=10", "lunar-lander")
    assert (exact.ours, exact.choice) == (Summary(3.0, 0.0, 1), "")


def test_a_run_of_the_other_protocol_or_with_other_settings_does_not_count(tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "MCPO N=10", "lunar-lander", [263.0], protocol="bootstrapped")
    (other,) = EXPERIMENTS["table-1"].cells("paper", ["MCPO N=10"], ["pendulum"], 1)
    leave(tmp_path, "table-1", "MCPO N=10", "pendulum", [-140.0], run=replace(other.run, horizon=1024))
    assert "24 not run" in table("table-1", tmp_path, "paper").state
    assert "Protocol bootstrapped: the value after a time limit counts. 24 cells: 1 in full (1 match, 0 differ)" in (
        table("table-1", tmp_path, "bootstrapped").state
    )


def test_seeds_of_several_files_share_a_cell_and_seeds_without_an_episode_are_left_out(tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "MCPO N=10", "pendulum", [-140.0, -150.0])
    leave(tmp_path, "table-1", "MCPO N=10", "pendulum", [-160.0], seed=2)
    shown = table("table-1", tmp_path, "paper")
    assert numbers(cell(shown, "MCPO N=10", "pendulum")) == pytest.approx((-150.0, np.sqrt(200 / 3), 3))
    assert "−150.00 ± 8.16 (3/3)<br>[−160.00, −140.00]" in shown.markdown()
    curves = np.array([[-170.0, NAN], [-180.0, -140.0]])
    leave(tmp_path, "table-1", "MCPO N=5", "pendulum", [0.0, 0.0], returns=curves)
    assert cell(table("table-1", tmp_path, "paper"), "MCPO N=5", "pendulum").ours == Summary(-140.0, 0.0, 1)


def test_the_best_is_bold_and_results_with_a_small_cohens_d_are_underlined(tmp_path: Path) -> None:
    for method, scores in {
        "MCPO N=5": [258.0, 262.0],
        "MCPO N=10": [257.5, 261.5],
        "MCPO N=40": [250.0, 254.0],
        "MCPO N=10 literal": [299.0, 300.0],
    }.items():
        leave(tmp_path, "table-1", method, "lunar-lander", scores)
    leave(tmp_path, "table-1", "PPO ε=0.3", "lunar-lander", [290.0, 291.0], steps=900_000)
    shown = table("table-1", tmp_path, "paper").markdown()
    assert "| MCPO N=5 | **260.00 ± 2.00** (2/2)<br>[258.00, 262.00]<br>paper 262.23 ± 12.47" in shown
    assert "<u>259.50 ± 2.00</u> (2/2)" in shown
    assert " 252.00 ± 2.00 (2/2)" in shown
    assert " 299.50 ± 0.50 (2/2)" in shown, "a variant of ours takes no part"
    assert " 290.50 ± 0.50 (2/2)" in shown, "nor does one that was trained for less"
    assert shown.count("**") == 6, "the title, and one best in each of two columns: the last window, the best one"


def test_a_single_result_is_not_marked_as_best() -> None:
    alone = Entry(None, "", Summary(1.0, 0.1, 5), steps=8)
    assert [entry.mark for entry in marked([alone, Entry(None, "not run")])] == ["", ""]
    assert [entry.mark for entry in marked([alone, replace(alone, ours=Summary(2.0, 0.0, 1))])] == ["", "best"]


def test_our_variants_are_listed_below_under_a_label(tmp_path: Path) -> None:
    shown = table("table-2", tmp_path, "paper")
    variants = ["MCPO N=40 default", "PPO ε=0.2 default"]
    variants += ["MCPO N=40 one target", "MCPO N=40 literal"]
    assert [row.name for row in shown.rows] == ["TRPO", "PPO", "MDPO", "TRGPPO", "Mean ψ", "MCPO", *variants]
    for method in ("MCPO N=40", "MCPO N=40 default", "MCPO N=40 literal"):
        leave(tmp_path, "table-2", method, "hopper", [2000.0, 2200.0])
    lines = table("table-2", tmp_path, "paper").markdown().splitlines()
    label = lines.index("| *not in the paper:* |  |  |")
    names = [line.split(" | ")[0] for line in (lines[label - 1], lines[label + 1], lines[label + 2])]
    assert names == ["| MCPO", "| MCPO N=40 default", "| MCPO N=40 literal"]


def test_a_page_names_the_rows_and_columns_without_a_run_below_the_table(tmp_path: Path) -> None:
    leave(tmp_path, "minigrid", "PPO ε=0.2", "unlock", [0.5])
    leave(tmp_path, "minigrid", "MCPO N=10", "unlock-pickup", [0.5])
    shown = table("minigrid", tmp_path, "paper").markdown()
    assert "| method | unlock, 100k | unlock-pickup, 1M |" in shown
    assert "| MCPO N=10 | paper about 0.9<br>not run | 0.50 (1/1)<br>paper about 0.9" in shown
    missing = ["KL Adaptive d=0.01", "KL Fixed β=0.1", "MDPO β₀=0.5", "VMPO α₀=1"]
    missing += ["MCPO N=10 default", "MCPO N=10 literal", "unlock, success rate", "unlock-pickup, success rate"]
    assert f"\nNot run: {'; '.join(missing)}.\n" in shown


def test_a_tuned_row_shows_its_best_setting_among_the_longest_runs(tmp_path: Path) -> None:
    leave(tmp_path, "table-2", "PPO ε=0.2", "hopper", [2000.0, 2200.0])
    leave(tmp_path, "table-2", "PPO ε=0.5", "hopper", [2500.0, 2300.0])
    leave(tmp_path, "table-2", "PPO ε=0.8", "hopper", [9000.0, 9000.0], steps=1_000_000)
    entry = cell(table("table-2", tmp_path, "paper"), "PPO", "hopper")
    assert (entry.ours, entry.choice, entry.verdict) == (Summary(2400.0, 100.0, 2), "ε=0.5 (2 of 3)", "matches")
    leave(tmp_path, "table-2", "PPO ε=0.8", "hopper", [2900.0])
    assert cell(table("table-2", tmp_path, "paper"), "PPO", "hopper").choice == "ε=0.8"


def test_atari_shows_the_best_of_each_curve_in_percent_of_human_scores(tmp_path: Path) -> None:
    games = EXPERIMENTS["table-3"].tasks
    curve = np.array([[1.7, 30.5, 16.1], [NAN, 59.3, 1.7]])
    leave(tmp_path, "table-3", "MCPO N=10", "breakout", [0.0, 0.0], returns=curve)
    shown = table("table-3", tmp_path, "paper")
    assert numbers(cell(shown, "MCPO N=10", "breakout")) == pytest.approx((150.0, 50.0, 2))
    assert cell(shown, "MCPO N=10", "mean").verdict == "not run"
    for game in games:
        if game != "breakout":
            leave(tmp_path, "table-3", "MCPO N=10", game, [{"enduro": 860.5, "gopher": 2412.5}.get(game, 0.0)])
    shown = table("table-3", tmp_path, "paper")
    means = [numbers(cell(shown, "MCPO N=10", game))[0] for game in games]
    assert sorted(means)[-3:] == pytest.approx([100.0, 100.0, 150.0])
    for key, value in (("mean", np.mean(means)), ("median", np.median(means))):
        entry = cell(shown, "MCPO N=10", key)
        assert numbers(entry) == pytest.approx((value, 0.0, 1))
        assert entry.verdict == "", "nine games are not six"
    assert "paper 229.99" in shown.markdown()


def test_navigation_shows_return_and_success(tmp_path: Path) -> None:
    successes = np.array([[0.5, 0.96], [0.5, 0.98]])
    leave(tmp_path, "minigrid", "MCPO N=10", "unlock", [0.86, 0.88], successes=successes)
    leave(tmp_path, "minigrid", "PPO ε=0.2", "unlock", [0.5, 0.7], successes=successes - 0.3)
    shown = table("minigrid", tmp_path, "paper")
    assert cell(shown, "MCPO N=10", "unlock").verdict == "matches"
    assert numbers(cell(shown, "MCPO N=10", "unlock success")) == pytest.approx((0.97, 0.01, 2))
    assert cell(shown, "MCPO N=10", "unlock success").verdict == "differs, better"
    assert cell(shown, "PPO ε=0.2", "unlock").verdict == ""
    assert "paper about 0.9" in shown.markdown()
    assert "12 cells: 2 in full (1 match, 0 differ), 0 short, 10 not run. 2 of them with fewer than 10" in shown.state


def test_an_ablation_is_compared_by_its_margin(tmp_path: Path) -> None:
    task = "bipedal-walker-hardcore"
    leave(tmp_path, "ablation", "No ψ", task, [100.0, 120.0])
    assert cell(table("ablation", tmp_path, "paper"), "No ψ", "margin").verdict == "not run", "nothing to compare with"
    leave(tmp_path, "ablation", "MCPO N=10", task, [190.0, 210.0])
    leave(tmp_path, "ablation", "Adaptive β", task, [100.0])
    leave(tmp_path, "ablation", "α=0.5", task, [100.0], steps=10_000_000)
    shown = table("ablation", tmp_path, "paper")
    assert numbers(cell(shown, "No ψ", "margin")) == pytest.approx((-90.0, 10.0, 2))
    assert cell(shown, "No ψ", "margin").interval == pytest.approx((-110.0, -70.0)), "both means are resampled"
    assert cell(shown, "No ψ", "margin").verdict == "matches"
    assert cell(shown, "Adaptive β", "margin").verdict == "differs, better"
    assert cell(shown, "α=0.5", "margin").verdict == "short"
    assert cell(shown, "No ψ", task).verdict == ""
    assert "−90.0 ± 10.0<br>paper about −100<br>matches" in shown.markdown()


@pytest.mark.parametrize("measured_under", ["paper", "bootstrapped"])
def test_cost_shows_the_speed_and_its_ratio_to_ppo_for_any_protocol(measured_under: str, tmp_path: Path) -> None:
    for method, speed in (("MCPO N=40", 3000.0), ("PPO ε=0.2", 4000.0), ("MCPO N=5", NAN)):
        leave(tmp_path, "cost", method, "pendulum", [0.0], protocol=measured_under, steps_per_second=speed)
    shown = table("cost", tmp_path, "paper")
    assert "Ours on a machine; the paper's on one V100." in shown.state
    assert "| MCPO N=40 | 3,000 (1)<br>paper 560 | 0.75<br>paper 0.45 |" in shown.markdown()
    assert "Not run: MCPO N=5; MCPO N=10.\n" in shown.markdown()


def test_only_methods_that_ran_in_full_on_every_task_are_compared(tmp_path: Path) -> None:
    # The paper's worst and best means are 0 and 1: -1051.14 and -133.42, 192.62 and 267.19, 164.40 and 266.26.
    ends = {"pendulum": (-1051.14, -133.42), "lunar-lander": (192.62, 267.19), "bipedal-walker": (164.40, 266.26)}
    for task, (worst, best) in ends.items():
        leave(tmp_path, "table-1", "MCPO N=10 default", task, [best, best])
        leave(tmp_path, "table-1", "MCPO N=5", task, [worst, best])
        leave(tmp_path, "table-1", "MCPO N=40", task, [best], steps=10**6)
    shown = table("table-1", tmp_path, "paper")
    scattered, reference = shown.aggregates
    assert (scattered.name, reference.name) == ("MCPO N=5", "MCPO N=10 default")
    assert scattered.interquartile_mean.value == pytest.approx(0.5)
    assert scattered.interquartile_mean.low == pytest.approx(0.0)
    assert scattered.improvement is not None
    assert scattered.improvement.value == 0.75
    assert str(reference.interquartile_mean) == "1.00 [1.00, 1.00]"
    assert reference.improvement is None
    assert "| MCPO N=10 default | 1.00 [1.00, 1.00] |  |" in shown.markdown()
    assert "1.00 [1.00, 1.00]" in printed(shown, 80)


def test_only_tasks_without_a_common_scale_are_rescaled(tmp_path: Path) -> None:
    ends = {
        "pendulum": (-1051.14, -133.42),
        "lunar-lander": (192.62, 267.19),
        "unlock": (0, 1),
        "unlock-pickup": (0, 1),
    }
    for task, (worst, best) in ends.items():
        leave(tmp_path, "ablation-default", "MCPO N=10 default", task, [best, (worst + best) / 2])
        leave(tmp_path, "ablation-default", "No ψ default", task, [worst, worst])
    shown = table("ablation-default", tmp_path, "paper")
    default, without = shown.aggregates
    assert default.interquartile_mean.value == pytest.approx(0.75)
    assert without.interquartile_mean.value == pytest.approx(0.0)
    assert without.improvement is not None
    assert without.improvement.value == 1
    assert "the paper's worst and best mean on a task as 0 and 1" in shown.notes[-1]
    assert "as 0 and 1" not in " ".join(table("minigrid", tmp_path, "paper").notes)


@pytest.mark.parametrize("width", [80, 300])
def test_a_terminal_shows_every_number_in_full(width: int, tmp_path: Path) -> None:
    for method in ("TRPO δ=0.005", "MDPO β₀=0.5", "MCPO N=40", "MCPO N=40 literal"):
        for task in EXPERIMENTS["table-2"].tasks:
            scores = [199_999.0, 166_666.0] if task == "humanoid-standup" else [8_888.0, 6_666.0]
            leave(tmp_path, "table-2", method, task, scores)
    shown = printed(table("table-2", tmp_path, "paper"), width)  # the last and the best window of each task
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    assert shown.count("183,332 ± 16,666 (2)") == 8
    assert shown.count("7,777 ± 1,111 (2)") == 40
    assert shown.count("195,404 ± 32,801") == 2
    assert shown.count("differs, better") == 30
    assert shown.count("matches") == 7, "MCPO's HalfCheetah and HumanoidStandup, MDPO's HalfCheetah, twice; the notes"
    assert shown.count("[6,666, 8,888]") == (0 if width == 80 else 40)
    assert shown.count("not in the paper:") == (12 if width == 80 else 1)
    assert ("TRPO δ=0.005 (1 of 2)" in shown) == (width == 80)


def test_a_narrow_terminal_wraps_without_cutting_text(tmp_path: Path) -> None:
    leave(tmp_path, "table-1", "KL Adaptive d=0.01", "pendulum", [-1234.5, -1334.5])
    shown = printed(table("table-1", tmp_path, "paper"), 50)
    assert max(map(len, shown.splitlines())) <= 50
    assert "…" not in shown


@pytest.mark.parametrize(
    ("name", "protocol", "message"),
    [("table-4", "paper", "no table 'table-4'; did you mean"), ("table-1", "papr", "no protocol 'papr'; did you mean")],
)
def test_an_unknown_name_gets_a_similar_suggestion(name: str, protocol: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TrustaxError, match=message):
        table(name, tmp_path, protocol)


def test_a_part_of_a_table_has_the_requested_rows_and_columns(tmp_path: Path) -> None:
    whole = table("table-1", tmp_path, "paper")
    part = part_of(whole, ["PPO ε=0.3", "MCPO N=10"], ["pendulum"])
    assert [row.name for row in part.rows] == ["PPO ε=0.3", "MCPO N=10"]
    assert [column.key for column in part.columns] == ["pendulum", "pendulum, best"]
    assert all(len(row.entries) == 2 for row in part.rows)
    best_of = part_of(table("table-2", tmp_path, "paper"), ["PPO ε=0.5"], None)
    assert [row.name for row in best_of.rows] == ["PPO"]
    navigation = part_of(table("minigrid", tmp_path, "paper"), None, ["unlock"])
    assert [column.key for column in navigation.columns] == ["unlock", "unlock success"]
    assert part_of(whole, None, []) is whole
