"""Sweeps on Ray and submitit end as on this machine, also if a process thought dead wakes up again."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reliability.sweeps import STEPS, every_step_once, hashes

from tests.pausing import Pause
from tests.sweeps.test_pool import LONG, job
from trustax.algorithms import MCPO
from trustax.run import Run
from trustax.storage.lease import has_leases
from trustax.sweeps.engines import make_engine
from trustax.sweeps.pool import run_jobs
from trustax.training import train

NUM_RUNS, NUM_ITERATIONS = 2, 400
RUN = Run(
    algorithm=MCPO(hidden_sizes=(8,), num_epochs=1, num_minibatches=2, memory_size=2),
    env_id="native:CartPole-v1",
    num_envs=2,
    horizon=64,
    total_timesteps=STEPS * NUM_ITERATIONS,
)
"""What the sweep of `reliability.sweeps` repeats."""
ROOT = Path(__file__).parents[2]
DISTURBED = f"""
import sys
from pathlib import Path
from reliability.sweeps import disturbed_sweep
assert disturbed_sweep(Path(sys.argv[1]), {NUM_RUNS}, {NUM_ITERATIONS}, num_kills=1, num_nodes=1, pause=0.4) == 1
"""
"""In a process of its own: Ray forks, which a process that uses JAX must not do."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the run that all runs of the sweep repeat, trained without a sweep."""
    folder = tmp_path_factory.mktemp("alone")
    train(RUN, run_dir=folder / "run", quiet=True)
    (found,) = hashes(folder).values()
    return found


@pytest.mark.engines
def test_a_sweep_continues_on_another_node_after_a_node_is_killed(expected: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DISTURBED, tmp_path / "sweep"], check=True, timeout=900, cwd=ROOT)
    assert list(hashes(tmp_path / "sweep").values()) == [expected] * NUM_RUNS
    assert every_step_once(tmp_path / "sweep", NUM_ITERATIONS)
    assert not list(tmp_path.glob("sweep/*/lease.*"))


@pytest.mark.engines
def test_submitit_runs_a_sweep(expected: str, tmp_path: Path) -> None:
    jobs = [job(tmp_path, f"run-{number}", RUN) for number in range(NUM_RUNS)]
    assert run_jobs(jobs, make_engine("slurm", cluster="local")) == []
    assert list(hashes(tmp_path).values()) == [expected] * NUM_RUNS


@pytest.mark.engines
def test_a_process_presumed_dead_does_not_write_after_it_wakes_up(tmp_path: Path) -> None:
    """The first attempt stops in the middle, a second one finishes the run, and then the first one wakes up."""
    own = replace(job(tmp_path, "run", LONG), lease=True)
    pause = Pause(tmp_path / "paused")
    first = start_worker(own.to_line(), pause)
    pause.wait_for(first)
    os.kill(first.pid, signal.SIGSTOP)
    second = start_worker(own.to_line())
    assert second.wait(timeout=600) == 0
    finished = (own.folder / "metrics.jsonl").read_bytes()
    pause.end()
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(timeout=600) == 2
    for process in (first, second):
        with process:
            assert (b"taken over by a later attempt" in process.communicate()[1]) == (process is first)
    assert (own.folder / "metrics.jsonl").read_bytes() == finished
    assert not has_leases(own.folder)


def start_worker(line: str, pause: Pause | None = None) -> "subprocess.Popen[bytes]":
    """Start the worker of a sweep in its own process, which may pause."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trustax.sweeps.worker" if pause is None else "tests.pausing"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if pause is None else pause.environment,
        cwd=ROOT,
    )
    assert process.stdin is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    return process
