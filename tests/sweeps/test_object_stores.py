"""Sweeps in an object store: an interrupted run goes on from the store, and ends as an undisturbed one."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from reliability.sweeps import hashes

from tests.pausing import Pause
from tests.sweeps.test_engines import start_worker
from tests.sweeps.test_pool import LONG, job
from trustax.storage.journal import read_records
from trustax.storage.mirror import local_copy
from trustax.storage.object_store import StoredRun
from trustax.sweeps.sweep import sweep


@pytest.mark.engines
def test_a_run_goes_on_from_the_store_and_its_first_process_writes_no_more(tmp_path: Path) -> None:
    """The first attempt stops in the middle, the second is killed, the third finishes, and the first one wakes up."""
    store = f"file://{tmp_path}/store/run"
    own = replace(job(tmp_path / "driver", "run", LONG), store=store)

    def step() -> int:
        saved = StoredRun(store).download(tmp_path / "seen", with_arrays=False)
        return 0 if saved is None else saved.step

    pauses = [Pause(tmp_path / f"paused.{attempt}") for attempt in (1, 2)]
    first = start_worker(own.to_line(), pauses[0])
    pauses[0].wait_for(first)
    os.kill(first.pid, signal.SIGSTOP)
    stopped_at = step()
    second = start_worker(own.to_line(), pauses[1])
    pauses[1].wait_for(second)
    second.kill()
    second.wait()
    assert 0 < stopped_at < step() < LONG.total_timesteps
    third = start_worker(own.to_line())
    assert third.wait(timeout=600) == 0
    finished = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    pauses[0].end()
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(timeout=600) == 2
    for process in (first, second, third):
        with process:
            assert (b"taken over by a later attempt" in process.communicate()[1]) == (process is first)
    assert {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()} == finished

    undisturbed = replace(own, store=None, folder=tmp_path / "undisturbed" / "run")
    with start_worker(undisturbed.to_line()) as process:
        assert process.wait(timeout=600) == 0
    copy = local_copy(store)
    assert hashes(copy.parent) == hashes(tmp_path / "undisturbed")
    steps = [record["time/total_timesteps"] for record in read_records(copy)]
    assert steps == [LONG.batch_size * (1 + index) for index in range(LONG.num_iterations)]


def test_a_sweep_reads_its_results_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_it() -> list[float]:
        result = sweep(
            "ppo",
            "native:CartPole-v1",
            folder=f"file://{tmp_path}/store/x",
            quiet=True,
            num_envs=2,
            horizon=64,
            total_timesteps=512,
            num_seeds=2,
            hidden_sizes=(8,),
            num_epochs=1,
            num_minibatches=2,
        )
        assert result.failures == []
        assert (tmp_path / "store" / "x" / "results.csv").read_bytes() == (result.folder / "results.csv").read_bytes()
        return [float(row["return"]) for row in result.rows()]

    for machine in ("one", "another"):
        (tmp_path / machine).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    first = run_it()
    monkeypatch.chdir(tmp_path / "another")
    monkeypatch.setattr("trustax.sweeps.sweep.run_jobs", lambda *given, **options: pytest.fail("it is finished"))
    assert run_it() == first
