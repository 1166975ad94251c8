"""Sweeps lose no work and repeat none, however a worker or the whole sweep ends."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reliability.sweeps import wait_for
from rich.console import Console

from tests.cli.test_progress import Clock, bar_console, output, plain_console
from tests.pausing import Pause
from trustax.algorithms import PPO
from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.runtime.cores import available_cores
from trustax.storage.history import newest_valid
from trustax.storage.journal import read_records
from trustax.storage.lock import locked
from trustax.sweeps.local import LocalEngine, divide_cores
from trustax.sweeps.pool import Failure, run_jobs
from trustax.sweeps.progress import SweepProgress
from trustax.sweeps.worker import Job, failure_of, finished_records, last_record, training_seconds
from trustax.training import train

TINY = Run(
    algorithm=PPO(hidden_sizes=(8,), num_epochs=1, num_minibatches=2),
    env_id="native:CartPole-v1",
    num_envs=2,
    horizon=64,
    total_timesteps=512,
    num_seeds=2,
)
LONG = replace(TINY, total_timesteps=128 * 60, num_seeds=1)  # one learner is on one device, whatever its cores
ROOT = Path(__file__).parents[2]
TIMES = {"time/fps", "time/time_elapsed", "time/update_share"}

SWEEP = """
import sys
from pathlib import Path
from tests.sweeps.test_pool import LONG, TINY, job
from trustax.runtime.interrupt import Interrupted
from trustax.sweeps.local import LocalEngine
from trustax.sweeps.pool import run_jobs
try:
    jobs = [job(Path(sys.argv[1]), "short", TINY), job(Path(sys.argv[1]), "long", LONG)]
    run_jobs(jobs, LocalEngine(2), worker="tests.pausing")
except Interrupted as stopped:
    print(stopped, file=sys.stderr)
    sys.exit(75)
"""


def job(folder: Path, name: str, run: Run = TINY) -> Job:
    return Job(title=name, run=run, folder=folder / name)


def quiet_sweep(*jobs: Job, num_workers: int | None = None, **settings: Any) -> list[Failure]:
    return run_jobs(jobs, LocalEngine(num_workers), console=Console(file=io.StringIO()), **settings)


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name not in TIMES} for one in records]


def begun(folder: Path, attempt: int) -> subprocess.Popen[bytes]:
    """Start a sweep in its own process, and wait until its long run pauses."""
    pause = Pause(folder / f"paused.{attempt}", TINY.num_iterations + 1)
    with open(folder / "said.txt", "w") as said:
        command = [sys.executable, "-c", SWEEP, str(folder)]
        process = subprocess.Popen(command, stderr=said, cwd=ROOT, env=pause.environment)
    pause.wait_for(process)
    return process


def num_saved(folder: Path) -> int:
    saved = newest_valid(folder)
    return 0 if saved is None else int(saved.name.removeprefix("step_")) // LONG.batch_size


@pytest.mark.engines
def test_a_stopped_and_killed_sweep_resumes_to_the_same_result(tmp_path: Path) -> None:
    long = tmp_path / "long"

    process = begun(tmp_path, attempt=1)
    wait_for(lambda: "✓ short" in (tmp_path / "said.txt").read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) == 75
    last_line = (tmp_path / "said.txt").read_text().splitlines()[-1]
    assert last_line == "stopped and saved; 1 of 2 runs are finished; run the same command to continue"
    stopped_at, recorded = num_saved(long), read_records(long)
    assert stopped_at == len(recorded)  # up to the last iteration

    process = begun(tmp_path, attempt=2)
    process.kill()
    process.wait()
    with locked(long, patience=600.0):  # its worker has noticed and exited
        killed_at = num_saved(long)
    assert stopped_at < killed_at < LONG.num_iterations
    first_time = {name: (tmp_path / name / "metrics.jsonl").read_bytes().splitlines() for name in ("short", "long")}

    assert quiet_sweep(job(tmp_path, "short"), job(tmp_path, "long", LONG), num_workers=2) == []
    assert without_times(read_records(long)) == without_times(train(LONG, quiet=True).records)
    # No work was repeated: the lines still have the times of the first sweep.
    again = {name: (tmp_path / name / "metrics.jsonl").read_bytes().splitlines() for name in ("short", "long")}
    assert again["short"] == first_time["short"]
    assert again["long"][:killed_at] == first_time["long"][:killed_at]


def test_a_failing_run_does_not_stop_the_others(tmp_path: Path) -> None:
    diverging = replace(TINY, algorithm=replace(TINY.algorithm, learning_rate=1e38))
    with locked(tmp_path / "taken"):
        failures = quiet_sweep(
            job(tmp_path, "taken"), job(tmp_path, "diverging", diverging), job(tmp_path, "good"), num_workers=2
        )
    reasons = {failure.job.title: failure.reason for failure in failures}
    assert reasons.pop("diverging").startswith(
        "learner 0, 1 diverged: loss not finite in 4 updates in a row, which were skipped; try a smaller learning_rate"
    )
    assert reasons == {
        "taken": f"{tmp_path / 'taken'} is being trained by another process (PID {os.getpid()}); wait until it ends",
    }
    assert finished_records(TINY, tmp_path / "good")
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    ("worker", "reason", "log"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL, perhaps because memory ran out; see {log}", ""),
        ("raise ValueError('no such thing')", "ValueError: no such thing; see {log}", "Traceback"),
        ("raise SystemExit(75)", "stopped by another process; run the same command to continue", None),
    ],
)
def test_a_dead_worker_is_reported_in_one_line(
    worker: str, reason: str, log: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying.py").write_text(worker)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (failure,) = quiet_sweep(job(tmp_path, "run"), worker="dying")
    path = tmp_path / "run.log"
    assert failure.reason == reason.format(log=path)
    assert path.read_text().startswith(log) if log is not None else not path.exists()


def test_a_log_is_named_only_if_it_was_written(tmp_path: Path) -> None:
    log = tmp_path / "sweep" / "run.log"
    assert failure_of(job(tmp_path / "sweep", "run"), 1, b"ValueError: no") == f"ValueError: no; see {log}"
    assert log.read_bytes() == b"ValueError: no"
    (tmp_path / "file").touch()
    reason = failure_of(job(tmp_path / "file", "run"), -signal.SIGKILL, b"")
    assert reason is not None
    assert reason.endswith(f"memory ran out; its log {tmp_path / 'file' / 'run.log'} cannot be written: File exists")


def test_a_worker_that_lacks_the_algorithm_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = job(tmp_path, "run").to_line().replace('"ppo"', '"mine"')
    monkeypatch.setattr(Job, "to_line", lambda job: line)
    (failure,) = quiet_sweep(job(tmp_path, "run"))
    assert "'mine'" in failure.reason
    assert "see" not in failure.reason
    assert not (tmp_path / "run.log").exists()


def test_a_worker_has_its_own_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = available_cores()
    text = "import os, sys\ntitle = __import__('json').loads(sys.stdin.readline())['title']\n"
    (tmp_path / "tells.py").write_text(text + "open(title, 'w').write(str(os.sched_getaffinity(0)))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert quiet_sweep(job(tmp_path, "one"), job(tmp_path, "two"), num_workers=2, worker="tells") == []
    shares = divide_cores(cores, 2)
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == [str(set(share)) for share in shares]
    assert available_cores() == cores


def test_cores_are_divided_evenly() -> None:
    assert divide_cores(list(range(8)), 3) == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert divide_cores([4, 7], 2) == [[4], [7]]


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TrustaxError, match="two runs of the sweep have the same folder"):
        quiet_sweep(job(tmp_path, "a"), replace(job(tmp_path, "a"), title="b"))


def test_a_job_survives_serialization(tmp_path: Path) -> None:
    one = Job(title="MCPO · β", run=LONG, folder=tmp_path, notes={"method": "α"})
    assert Job.from_line(one.to_line()) == one


def test_a_run_is_finished_when_its_last_iteration_is_saved(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert finished_records(TINY, folder) is None
    half = train(replace(TINY, total_timesteps=256), run_dir=folder, quiet=True)
    assert finished_records(TINY, folder) is None
    assert finished_records(half.run, folder) == half.records
    assert finished_records(replace(half.run, seed=1), folder) is None


def test_training_seconds_include_every_part_of_a_resumed_run() -> None:
    # Two iterations of 256 steps, the second after a resume: 256 / 128 + 256 / 512 seconds.
    records = [{"time/fps": 128.0, "time/time_elapsed": 2.1}, {"time/fps": 512.0, "time/time_elapsed": 0.5}]
    assert training_seconds(TINY, records) == 2.5


def test_the_newest_complete_record_is_read_while_another_is_written(tmp_path: Path) -> None:
    assert last_record(tmp_path) is None
    lines = [json.dumps({"time/total_timesteps": steps, "filling": [1] * 17}) for steps in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines[:2]) + "\n" + lines[2][:20])
    for tail in (10, 100, 180, 65_536):
        record = last_record(tmp_path, tail)
        assert record is not None
        assert record["time/total_timesteps"] == 2


def test_a_lock_can_be_taken_again_after_its_release(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "run"), pytest.raises(TrustaxError, match=r"being trained by (this|another) process"):
            locked(tmp_path / "run", patience=0.0).__enter__()


def test_the_terminal_shows_a_bar_per_run_and_a_total(tmp_path: Path) -> None:
    clock, console = Clock(), bar_console()
    jobs = [job(tmp_path, "MCPO [N=10]"), job(tmp_path, "PPO")]
    with SweepProgress("table-1", jobs, {"PPO": 256}, console, clock) as progress:
        progress.start(jobs[0], 0)
        progress.start(jobs[1], 256)
        for steps in (128, 256):
            clock.now += 1.0
            progress.update(jobs[0], {"time/total_timesteps": steps, "rollout/ep_rew_mean": [10.0, 20.0]})
        progress._bars.refresh()
        shown = output(console)
    first, second, both = shown[shown.rindex("MCPO [N=10]") :].split("\n")
    assert first.endswith("256/512 steps 128 steps/s return 15.0 ± 5.0 2 s left")
    assert "PPO" in second
    assert "resuming …" in second
    # Over both seeds, 512 of 2048 steps were done before, 512 took 2 seconds, and 1024 are left.
    assert "table-1" in both
    assert "0 of 2 runs" in both
    assert both.rstrip().endswith("4 s left")


def test_a_log_gets_a_line_per_minute_and_one_per_ended_run(tmp_path: Path) -> None:
    clock, console = Clock(), plain_console()
    jobs = [job(tmp_path, "MCPO"), job(tmp_path, "PPO")]
    with SweepProgress("table-1", jobs, {}, console, clock) as progress:
        for one in jobs:
            progress.start(one, 0)
        for steps in range(64, 513, 64):
            clock.now += 30.0
            progress.update(jobs[0], {"time/total_timesteps": steps})
            progress.refresh()
        progress.end(jobs[0], {"rollout/ep_rew_mean": [1.0, 3.0]})
        progress.end(jobs[1], None, "it broke")
    assert output(console).splitlines() == [
        "table-1: 0 of 2 runs, 7 min 00 s left, MCPO 25%, PPO 0%",
        "table-1: 0 of 2 runs, 6 min 00 s left, MCPO 50%, PPO 0%",
        "table-1: 0 of 2 runs, 5 min 00 s left, MCPO 75%, PPO 0%",
        "table-1: 0 of 2 runs, 4 min 00 s left, MCPO 100%, PPO 0%",
        "✓ MCPO: 512 steps, return 2.00 ± 1.00, after 4 min 00 s",
        "✗ PPO: it broke",
    ]
