"""The arithmetic of the benchmarks: medians, ratios, targets, tables, turns. No peer runs here."""

import json
import platform
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

import trustax as tx

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
MODULES = (
    *("bars", "breakdown", "compare", "contenders", "costs", "engines", "machine", "pages", "parts", "predict"),
    *("scaled", "scaling", "tuning"),
)
bars, breakdown, compare, contenders, costs, engines, machine, pages, parts, predict, scaled, scaling, tuning = (
    import_module(name) for name in MODULES
)

SB3, MCPO = "Pendulum-v1: Stable-Baselines3 PPO", "Pendulum-v1: Trustax MCPO N=10"


def measured(name: str, *speeds: float, threads: str = "all", memory: float = 500.0) -> list[dict[str, Any]]:
    return [{"name": name, "threads": threads, "steps_per_second": v, "peak_memory_mb": memory} for v in speeds]


def verdicts(measurements: list[dict[str, Any]]) -> dict[str, str]:
    table = bars.bars_table(bars.at_best_threads(measurements), bars.BARS)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {row[0]: row[-1] for row in rows}


def test_a_ratio_uses_medians_and_the_faster_thread_setting_of_a_peer() -> None:
    peer = measured(SB3, 900.0, 1000.0, 9000.0) + measured(SB3, 2000.0, 1900.0, 100.0, threads="one")
    ours = measured(MCPO, 38_000.0, 1.0, 40_000.0)
    best = bars.at_best_threads(peer + ours)
    assert {m["threads"] for m in best if m["name"] == SB3} == {"one"}
    assert bars.ratio(best, MCPO, SB3) == 38_000 / 1900
    assert bars.ratio(best, MCPO, "Pendulum-v1: nobody") is None


@pytest.mark.parametrize(("speed", "verdict"), [(13.9, "no"), (14.0, "required"), (24.9, "required"), (25.0, "goal")])
def test_a_bar_reports_what_was_reached(speed: float, verdict: str) -> None:
    assert verdicts(measured(SB3, 1.0) + measured(MCPO, speed))["MCPO N=10 / Stable-Baselines3 PPO"] == verdict


@pytest.mark.parametrize(("memory", "verdict"), [(399.0, "goal"), (600.0, "required"), (601.0, "no")])
def test_less_memory_is_better_and_the_worst_run_counts(memory: float, verdict: str) -> None:
    runs = measured(MCPO, 1.0, memory=memory) + measured(MCPO, 1.0, 1.0, memory=100.0)
    assert verdicts(runs)["peak memory of MCPO N=10"] == verdict


def test_every_bar_refers_to_existing_contenders() -> None:
    everyone = [m for c in contenders.contenders() for m in measured(c.name, 1000.0, threads=c.threads)]
    waited = {"name": bars.FIRST_RUN, "threads": "all", "cold_seconds": 9.0, "warm_seconds": 2.5}
    assert "not measured" not in verdicts([*everyone, waited]).values()
    assert set(verdicts([]).values()) == {"not measured"}


def test_the_table_of_speeds_is_sorted_and_excludes_failures() -> None:
    failed = {"name": "Pendulum-v1: rejax PPO", "threads": "all", "failed": "it is not installed"}
    table = bars.speeds_table([*measured(SB3, 2000.0, 1000.0), *measured(MCPO, 30_000.0), failed])
    assert table.splitlines()[2:] == [
        "| Pendulum-v1 | Trustax MCPO N=10 | 30,000 | 30,000 to 30,000 | 20.00 × |  | 500 MB | all |",
        "| Pendulum-v1 | Stable-Baselines3 PPO | 1,500 | 1,000 to 2,000 | 1.00 × |  | 500 MB | all |",
    ]


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(compare, "measure", lambda contender, *_: measured(contender.name, 5.0)[0])
    chosen = [contenders.Contender(name, "script.py", {}) for name in ("a", "b")]
    assert [m["name"] for m in compare.take_turns(chosen, 2, {})] == ["a", "b", "a", "b"]
    assert "[4/4] b (all threads): 5 steps/s, 500 MB; 0:00:00 left" in capsys.readouterr().out


def test_a_measurement_runs_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "SCRIPTS", tmp_path)
    echo = "import json, os, sys; print(json.dumps(json.loads(sys.argv[1]) | {'NPROC': os.environ.get('NPROC')}))"
    (tmp_path / "echo.py").write_text(f"print('something else')\n{echo}")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such environment')")

    def run(script: str, threads: str) -> dict[str, Any]:
        who = contenders.Contender("someone", script, {"env_id": "E-v0"}, Path(sys.executable), threads)
        return contenders.measure(who, {"horizon": 7}, str(tmp_path))

    alone = run("echo.py", "one")
    assert (alone["NPROC"], alone["env_id"], alone["horizon"], alone["num_envs"]) == ("1", "E-v0", 7, 4)
    assert run("echo.py", "all")["NPROC"] is None
    assert run("broken.py", "all")["failed"] == "RuntimeError: no such environment"


def test_a_report_is_made_from_saved_results_without_the_host_name() -> None:
    versions = {"versions": {"jax": "0.10.2"}}
    outcome = {"machine": machine.describe(), "measurements": [m | versions for m in measured(SB3, 1.0, 2.0)]}
    report = compare.report(json.loads(json.dumps(outcome)))
    assert "jax 0.10.2" in report
    assert "| measure | required | goal | measured | met |" in report
    assert platform.node() not in json.dumps(outcome)


def test_predictions_are_compared_by_medians_over_the_rounds() -> None:
    def of(name: str, *rounds: float) -> list[dict[str, Any]]:
        return [{"name": name, "microseconds": {"deterministic": each, "sampled": 2 * each}} for each in rounds]

    measurements = [each for env_id in predict.ENV_IDS for each in of(f"{env_id}: {predict.OURS}", 30.0, 90.0, 40.0)]
    measurements += [each for env_id in predict.ENV_IDS for each in of(f"{env_id}: {predict.THEIRS}", 160.0, 100.0)]
    _, _, _, _, row, *_ = predict.table({"machine": machine.describe(), "measurements": measurements}).splitlines()
    assert row == "| CartPole-v1 | deterministic | 40 µs (30 to 90) | 130 µs (100 to 160) | 3.2 × |"


def test_the_page_has_the_table_of_predictions() -> None:
    page = (BENCHMARKS.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = predict.table(json.loads(predict.RESULTS.read_text(encoding="utf-8")))
    assert table in page
    rows = [[cell.split(" µs")[0].strip() for cell in line.split("|")[3:5]] for line in table.splitlines()[4:]]
    ours, theirs = ([int(cell) for cell in column] for column in zip(*rows, strict=True))
    assert f"takes {min(ours)} to {max(ours)} µs; Stable-Baselines3 needs {min(theirs)} to {max(theirs)} µs" in page


def test_scaling_replaces_an_earlier_measurement_of_the_same_kind() -> None:
    def of(part: str, size: int, speed: float) -> dict[str, Any]:
        return {"part": part, "size": size, "method": "PPO", "steps_per_second": [speed]}

    kept = scaling.merge(scaling.merge([of("seeds", 2, 1.0)], of("memory", 10, 3.0)), of("seeds", 2, 9.0))
    assert kept == [of("memory", 10, 3.0), of("seeds", 2, 9.0)]


def test_scaling_has_one_column_per_size_and_one_row_per_method_and_device() -> None:
    def of(part: str, size: int, method: str, *speeds: float) -> dict[str, Any]:
        outcome = {"steps_per_second": list(speeds)} if speeds else {"failed": "it took too long"}
        return {"part": part, "size": size, "method": method} | outcome

    gpu = [of("memory", 5, "MCPO", 1e5), of("memory", 1000, "MCPO", 9e4), of("seeds", 10, "MCPO", 1e6, 9e5, 2e6)]
    cpu = [of("seeds", 1, "PPO", 78_300.0), of("seeds", 10, "PPO")]
    devices = [{"device": {"name": name}, "measurements": of} for name, of in (("CPU", cpu), ("NVIDIA H200", gpu))]
    bars_of_the_gpu, memory, seeds, *_ = scaled.tables(devices).split("\n\n")
    verdicts = [line.split(" | ")[-1] for line in bars_of_the_gpu.splitlines()[2:]]
    assert verdicts == ["goal |", "not measured |", "required |"]
    assert memory.splitlines()[2:] == ["| MCPO, NVIDIA H200 | 100k | 90k |"]
    assert seeds.splitlines() == [
        "| seeds | 1 | 10 |",
        "|---|---|---|",
        "| PPO, CPU | 78.3k |  |",
        "| MCPO, NVIDIA H200 |  | 1M |",
    ]


def test_the_floor_is_the_larger_of_compute_and_memory_time() -> None:
    peak = breakdown.Peak(operations_per_second=1e9, bytes_per_second_in_cache=1e11, bytes_per_second=1e10)
    assert peak.floor(1e6, 1e3) == 1e-3
    assert peak.floor(0, 5e5) == 5e-6
    assert peak.floor(0, 1e9) == 0.1


def test_parts_preserve_the_shapes_of_their_carry_and_count_operations() -> None:
    spec = tx.EnvSpec(observation_shape=(3,), actions=tx.BoxActions((-2.0,), (2.0,)))
    listed = parts.parts_of(spec, memory_size=5)
    for part in listed:
        assert jax.eval_shape(part.step, part.carry) == jax.eval_shape(lambda x: x, part.carry), part.name
    by_name = {part.name: part for part in listed}
    products = 3 * 64 + 64 * 64 + 64  # of the actor, and of the critic
    assert by_name["ψ_old forward"].operations == 2 * 128 * 2 * products
    assert by_name["θ forward after the step"].operations == 2 * 128 * products
    assert by_name["θ forward and backward"].operations == 128 * (6 * 2 * products - 2 * 2 * 3 * 64)


def test_the_rest_is_the_time_outside_the_parts() -> None:
    rows = [breakdown.Row("rollout", 10, 1e-3, 1e-3), breakdown.Row("a part", 4, 5e-3, 1e-3)]
    lines = breakdown.table(rows, update=0.030).splitlines()
    assert lines[2] == "| rollout | 10 | 1000.0 | 1000.00 | 1.0 | 10.0 | 25% |"
    assert lines[-2:] == [
        "| the rest of the update | | | | | 10.0 | 25% |",
        "| the iteration | | | | | 40.0 | 100% |",
    ]


def test_an_uninstalled_package_has_a_version_text(capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(BENCHMARKS / "peers"))
    measurement = import_module("measurement")
    measurement.report(SimpleNamespace(name="we"), ["jax", "in-no-index"], steps_per_second=1.0)
    versions = json.loads(capsys.readouterr().out)["versions"]
    assert versions == {"jax": jax.__version__, "in-no-index": "from source, not installed"}


def test_costs_are_relative_to_the_first_variant_of_a_part() -> None:
    speeds = {"none": [990.0, 1000.0, 5.0], "StopAtReturn": [1000.0], "KeepAgents, rarely": [980.0]}
    measurements = [
        {"part": "PPO with callbacks", "variant": name, "steps_per_second": values} for name, values in speeds.items()
    ]
    text = costs.table({"machine": machine.describe(), "versions": {"jax": "1"}, "measurements": measurements})
    assert text.splitlines()[4:7] == [
        "| PPO with callbacks | none | 990 | 1.000 |  |  |",
        "| PPO with callbacks | StopAtReturn | 1,000 | 0.990 | 1.01 | yes |",
        "| PPO with callbacks | KeepAgents, rarely | 980 | 1.010 | 1.01 | no |",
    ]
    page = f"before\n{costs.MARKER}\nold\n\n## next\nafter\n"
    assert pages.replaced(page, costs.MARKER, "new") == f"before\n{costs.MARKER}\nnew\n\n## next\nafter\n"


def test_engines_are_compared_by_medians() -> None:
    times = {"local": [100.0, 90.0, 300.0], "ray": [114.0, 116.0, 90.0]}
    about = {"machine": machine.describe(), "versions": {"jax": "1", "ray": "2"}, "sizes": engines.Sizes()._asdict()}
    assert engines.table(about | {"seconds": times}).splitlines()[-2:] == [
        "| local | 100.0 | 90.0 to 300.0 | 1.000 |  |  |",
        "| ray | 114.0 | 90.0 to 116.0 | 1.140 | 1.15 | yes |",
    ]


def test_tuning_is_compared_with_complete_runs_and_default_settings() -> None:
    of = {"machine": machine.describe(), "best": 480.0}
    pruned = of | {"seconds": 60.0, "seconds_again": 30.0, "steps": 40, "tuned": [9.0, 11.0], "default": [9.0, 9.0]}
    single = of | {"seconds": 150.0, "seconds_again": 100.0, "steps": 100}
    tasks = {"CartPole-v1": {"pruned": pruned, "single": single, "zoo": of | {"seconds": 90.0, "steps": 9}}}
    lines = tuning.table({"trials": 40, "tasks": tasks}).splitlines()
    assert lines[4] == "| CartPole-v1 | Trustax, pruned | 40 | 40 | 60 | 30 | 480.0 | 10.0 ± 1.0 |"
    assert "40% of the steps of 40 runs one after another, and 40% of their time; 30% if" in lines[-3]
    assert "at least as good as the default ones: 10.0 ± 1.0 and 9.0 ± 0.0" in lines[-2]
    assert lines[-1].endswith("RL Zoo's tuning takes 1.5 or 3.0 times as long.")
    assert {tuning.MARKER, engines.MARKER, costs.MARKER} <= set(pages.BENCHMARKS.read_text().splitlines(keepends=True))
