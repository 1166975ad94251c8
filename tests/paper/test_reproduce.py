"""What `trustax reproduce` runs, skips, writes and shows."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.sweeps.test_pool import TINY
from trustax.cli.main import main
from trustax.ops.metrics import Record
from trustax.paper.experiments import Cell, experiment
from trustax.paper.reproduce.plan import Part, missing_jobs, missing_seeds
from trustax.paper.reproduce.reproduce import NAMES
from trustax.paper.reproduce.worker import write_outcome
from trustax.paper.results import Outcome, outcome_of, read, write
from trustax.run import Run
from trustax.sweeps.worker import Job, training_seconds
from trustax.training import train

PENDULUM = Part(name="table-1", protocols=["paper"], methods=["MCPO N=10", "PPO ε=0.3"], tasks=["pendulum"])


def record(run: Run, speed: float = 100.0) -> Record:
    return {
        "time/total_timesteps": run.num_iterations * run.batch_size,
        "time/fps": speed,
        "rollout/ep_rew_mean": [-150.0] * run.num_seeds,
    }


def outcome(cell: Cell, seeds: range, steps: int | None = None, method: str | None = None) -> Outcome:
    run = replace(cell.run, seed=seeds[0], num_seeds=len(seeds), total_timesteps=steps or cell.run.total_timesteps)
    return outcome_of(run, method or cell.method, [record(run)], seconds=1.0)


@pytest.mark.parametrize("count", [1, 2, 199, 200, 201, 397, 2441])
def test_a_long_curve_is_thinned_but_keeps_its_last_and_best_points(count: int) -> None:
    run = replace(experiment("table-1").cells("paper")[0].run, num_seeds=2)
    records = [record(run) | {"time/total_timesteps": 10 * (i + 1)} for i in range(count)]
    records[count // 3] |= {"rollout/ep_rew_mean": [-9.0, -150.0]}
    records[count // 2] |= {"rollout/ep_rew_mean": [-10.0, -8.0]}
    made = outcome_of(run, "PPO", records, seconds=1.0)
    assert made.steps[-1] == 10 * count
    assert len(made.steps) <= min(count, 202)
    assert made.best.tolist() == [-10.0 if count == 1 else -9.0, -8.0]


def test_seeds_from_several_files_share_their_steps(tmp_path: Path) -> None:
    """Long curves keep the best point of each seed, so their steps differ; here one run is also shorter."""
    run = experiment("table-1").cells("paper")[0].run
    for seed, (count, best) in enumerate([(2441, 1000), (2441, 1001), (2000, 5)]):
        records = [record(replace(run, num_seeds=1)) | {"time/total_timesteps": 10 * (i + 1)} for i in range(count)]
        records[best] |= {"rollout/ep_rew_mean": [seed + 1.0]}
        write(outcome_of(replace(run, seed=seed, num_seeds=1), "PPO", records, seconds=1.0), tmp_path)
    (merged,) = read(tmp_path)
    assert merged.steps[-1] == 20_000
    assert merged.returns.shape == (3, len(merged.steps))
    assert merged.best.tolist() == [1.0, 2.0, 3.0]
    assert merged.final.tolist() == [-150.0] * 3


def test_a_completed_cell_counts_each_seed_once_and_nothing_that_stopped_early(tmp_path: Path) -> None:
    run = experiment("table-1").cells("paper")[0].run

    def store(seeds: range, value: float, stopped: bool = False) -> None:
        part = replace(run, seed=seeds[0], num_seeds=len(seeds))
        last = record(part) | {"rollout/ep_rew_mean": [value] * len(seeds)}
        last |= {"time/total_timesteps": 10} if stopped else {}
        write(outcome_of(part, "PPO", [last], seconds=1.0), tmp_path)

    store(range(0, 3), 1.0, stopped=True)
    assert [one.final.tolist() for one in read(tmp_path)] == [[1.0] * 3]
    store(range(1, 5), 2.0)
    store(range(4, 6), 3.0)
    (merged,) = read(tmp_path)
    assert merged.is_complete
    assert merged.final.tolist() == [2.0] * 4 + [3.0]


def command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    """Exit code, stdout and stderr of `trustax reproduce`."""
    with pytest.raises(SystemExit) as leaving:
        main(["reproduce", *arguments])
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        ([], [range(0, 5)]),
        ([(range(0, 5), None, None)], []),
        ([(range(0, 6), None, None)], []),
        ([(range(0, 2), None, None), (range(3, 4), None, None)], [range(2, 3), range(4, 5)]),
        ([(range(0, 5), 2_000_000, None)], []),  # tables show it
        ([(range(0, 5), 2_000_000, None), (range(0, 1), None, None)], [range(1, 5)]),  # tables show the exact length
        ([(range(0, 2), 2_000_000, None)], [range(0, 5)]),
        ([(range(0, 5), 500_000, None)], [range(0, 5)]),
        ([(range(0, 5), None, "MCPO N=40")], [range(0, 5)]),
    ],
)
def test_only_seeds_without_an_outcome_are_run(
    present: list[tuple[range, int | None, str | None]], missing: list[range]
) -> None:
    cell = PENDULUM.cells("paper")[1]
    assert cell.method == "MCPO N=10"
    found = [outcome(cell, *one) for one in present]
    assert missing_seeds(cell, [(one.method, one.run) for one in found]) == missing


def test_an_outcome_counts_for_its_own_protocol_only(tmp_path: Path) -> None:
    part = replace(PENDULUM, protocols=["paper", "bootstrapped"])
    cell = part.cells("bootstrapped")[1]
    write(outcome(cell, range(0, 3)), tmp_path / "results" / "bootstrapped")
    jobs = missing_jobs(part, tmp_path / "results", tmp_path / "runs")
    assert [(job.title, job.folder.parent.name, list(job.run.seeds)) for job in jobs] == [
        ("PPO ε=0.3 · pendulum · paper", "paper", [0, 1, 2, 3, 4]),
        ("MCPO N=10 · pendulum · paper", "paper", [0, 1, 2, 3, 4]),
        ("PPO ε=0.3 · pendulum · bootstrapped", "bootstrapped", [0, 1, 2, 3, 4]),
        ("MCPO N=10 · pendulum · seeds 3 to 4 · bootstrapped", "bootstrapped", [3, 4]),
    ]
    assert [job.run.bootstrap_truncation for job in jobs] == [False, False, True, True]
    assert jobs[3].folder.name.startswith("pendulum__MCPO-N-10__")
    assert jobs[3].folder.name.endswith("__3-4")
    assert len({job.folder for job in jobs}) == 4


def test_an_outcome_that_stopped_before_its_end_is_run_again(tmp_path: Path) -> None:
    part = replace(PENDULUM, methods=["MCPO N=10"])
    made = outcome(part.cells("paper")[0], range(0, 5))
    write(made, tmp_path / "paper")
    assert not missing_jobs(part, tmp_path, tmp_path)
    write(replace(made, steps=[made.steps[-1] - 1]), tmp_path / "paper")
    assert len(missing_jobs(part, tmp_path, tmp_path)) == 1


def test_a_shorter_run_has_its_own_folder(tmp_path: Path) -> None:
    short = missing_jobs(replace(PENDULUM, total_timesteps=200_000, num_seeds=3), tmp_path, tmp_path)
    full = missing_jobs(PENDULUM, tmp_path, tmp_path)
    assert {(job.run.total_timesteps, job.run.num_seeds) for job in short} == {(200_000, 3)}
    assert not {job.folder for job in short} & {job.folder for job in full}


def test_timed_runs_take_turns_in_three_rounds(tmp_path: Path) -> None:
    part = Part(name="cost", protocols=["paper", "bootstrapped"], methods=["MCPO N=5", "PPO ε=0.2"])
    jobs = missing_jobs(part, tmp_path / "results", tmp_path / "runs")
    assert [job.title for job in jobs] == [
        f"{method} · pendulum · round {number}" for number in (1, 2, 3) for method in ("MCPO N=5", "PPO ε=0.2")
    ]
    assert {job.folder.parent for job in jobs} == {tmp_path / "runs" / "cost"}
    assert len({job.folder for job in jobs}) == 6
    write(outcome(part.cells("paper")[0], range(1)), tmp_path / "results" / "cost")
    assert len(missing_jobs(part, tmp_path / "results", tmp_path / "runs")) == 3


def test_the_outcome_of_a_timed_run_has_the_median_speed_of_all_rounds(tmp_path: Path) -> None:
    rounds = [tmp_path / f"round-{number}" for number in (1, 2, 3)]
    notes = {"method": "PPO ε=0.2", "results": str(tmp_path / "results"), "rounds": [str(one) for one in rounds]}
    job = Job(title="timed", run=replace(TINY, total_timesteps=128), folder=rounds[0], notes=notes)
    (first,) = train(job.run, run_dir=rounds[0], quiet=True).records
    speeds = [first["time/fps"], 1.0, 2.0]
    for folder, speed in zip(rounds[1:], speeds[1:], strict=True):
        write_outcome(job, [first])
        assert not (tmp_path / "results").exists()
        shutil.copytree(rounds[0], folder)
        metrics = folder / "metrics.jsonl"
        metrics.write_text(metrics.read_text().replace(f'"time/fps": {first["time/fps"]}', f'"time/fps": {speed}'))
    write_outcome(job, [first])
    (found,) = read(tmp_path / "results")
    assert found.steps_per_second == 2.0
    assert (found.method, found.run) == ("PPO ε=0.2", job.run)
    assert found.seconds == pytest.approx(training_seconds(job.run, [{"time/fps": 2.0}]))
    assert [path.suffix for path in (tmp_path / "results").iterdir()] == [".json"]  # and no temporary file


def test_a_cell_is_run_only_once_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["table-1", "--methods", "PPO ε=0.3", "--tasks", "pendulum", "--seeds", "1", "--steps", "16384"]
    code, shown, said = command(arguments, capsys)
    assert code == 0
    assert said.splitlines()[0] == "table-1: 1 cell, 1 run to go: 16.4k environment steps, in runs/reproduce"
    assert "✓ PPO ε=0.3 · pendulum: 16.4k steps, return -" in said
    (path,) = Path("results/paper").iterdir()
    (found,) = read(Path("results/paper"))
    (cell,) = experiment("table-1").cells("paper", ["PPO ε=0.3"], ["pendulum"], 1, 16_384)
    assert (found.method, found.run, found.steps) == (cell.method, cell.run, [8192, 16_384])
    assert np.isfinite(found.final).all()
    assert found.seconds > 0
    assert f"{found.final[0]:,.2f}".replace("-", "−") in shown

    assert command(arguments, capsys)[2] == "table-1: 1 cell, nothing to run\n"

    # If the outcome of a finished run is lost, it is written again without training.
    content = path.read_text()
    path.unlink()
    (folder,) = (one for one in Path("runs/reproduce/paper").iterdir() if one.is_dir())
    journal = (folder / "metrics.jsonl").read_bytes()
    assert command(arguments, capsys)[0] == 0
    assert (path.read_text(), (folder / "metrics.jsonl").read_bytes()) == (content, journal)

    code, shown, _ = command(["curves"], capsys)
    assert (code, shown) == (0, "results/figures/curves-pendulum-paper.png\n")
    assert Path(shown.strip()).stat().st_size > 0


def test_a_failed_run_is_listed_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["table-1", "--methods", "PPO ε=0.3", "--tasks", "pendulum", "--runs", "/proc/nowhere"]
    code, shown, said = command([*arguments, "--results", str(tmp_path)], capsys)
    assert code == 2
    assert "not run" in shown
    *_, failure, last = said.splitlines()
    assert failure.startswith("✗ PPO ε=0.3 · pendulum: /proc/nowhere/paper/pendulum__PPO-0.3__")
    assert failure.endswith("cannot be written: No such file or directory")
    assert last == "trustax: failed runs: 1; run the same command to try them again"


def test_everything_can_be_shown_without_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        code, shown, said = command([name, "--render-only", "--results", str(tmp_path)], capsys)
        assert (code, said) == (0, ""), name
        assert "not run" in shown or "nothing to draw yet" in shown, name
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel-1"], "there is no experiment 'tabel-1' to reproduce; did you mean table-1"),
        (["table-1", "--methods", "PPO 0.3"], "this experiment has no method 'PPO 0.3'; did you mean PPO ε=0.3"),
        (["table-1", "--tasks", "hopper"], "this experiment has no task 'hopper'"),
        (["table-1", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["table-1", "--jobs", "-1"], "--jobs must be at least 1, not -1"),
        (["table-1", "--runs", "s3://bucket/x"], "--runs must be a folder on a disk, not the URL s3:/bucket/x"),
        (["table-1", "--protocol", "papier"], "--protocol must be paper, bootstrapped or both, not 'papier'"),
        ([], "NAME is missing: one of: table-1"),
    ],
)
def test_a_mistake_gets_a_one_line_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = command(arguments, capsys)
    assert code == 2
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_damaged_outcome_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "half.json").write_text('{"method": "PPO')
    code, _, said = command(["table-1", "--results", str(tmp_path)], capsys)
    assert code == 2
    assert said.startswith(f"trustax: {tmp_path}/paper/half.json is not a result file of Trustax")
