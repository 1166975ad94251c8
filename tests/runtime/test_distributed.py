"""Runs in several processes: the numbers of one process, also after a process is killed or their number changes."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import trustax as tx
from tests.pausing import Pause
from tests.runtime.threads import free_port, in_threads
from tests.storage.test_loggers import curve
from trustax.runtime.decisions import merged, part_of
from trustax.runtime.distributed import Distributed, Group, joined
from trustax.runtime.train_step import Seconds, StepResult
from trustax.storage.arrays import read_arrays
from trustax.storage.history import newest_valid
from trustax.storage.manifest import read_manifest

ROOT = Path(__file__).parents[2]
NUM_SEEDS, BATCH_SIZE, NUM_ITERATIONS = 4, 16, 120
OPTIONS = (
    f"--env-id CartPole-v1 --num-seeds {NUM_SEEDS} --num-envs 2 --horizon 8 --total-timesteps "
    f"{BATCH_SIZE * NUM_ITERATIONS} --hidden-sizes 4 --num-epochs 1 --num-minibatches 2 --checkpoint-seconds 0 --quiet"
).split()


def start(
    folder: Path, num_processes: int, *options: str, pauses: dict[int, Pause] | None = None
) -> "list[subprocess.Popen[str]]":
    """Start the processes of a run, with one CPU device for each seed: equal programs, so equal numbers.

    `pauses` has the processes that pause, by number; the others then wait for them.
    """
    pauses = pauses or {}
    devices = {"JAX_NUM_CPU_DEVICES": str(NUM_SEEDS // num_processes)}
    command = ["train", "ppo", *OPTIONS, "--loggers", "--run-dir", str(folder), *options]
    divided = ["--coordinator", f"localhost:{free_port()}", "--num-processes", str(num_processes), "--process-id"]
    return [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.pausing" if process in pauses else "trustax", *command),
                *([*divided, str(process)] if num_processes > 1 else []),
            ],
            env=(pauses[process].environment if process in pauses else os.environ) | devices,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for process in range(num_processes)
    ]


def finish(processes: "list[subprocess.Popen[str]]") -> tuple[list[int], list[str]]:
    """Wait for all processes; their exit codes, and the lines that they have written to stderr."""
    errors = [process.communicate(timeout=600)[1] for process in processes]
    return [process.returncode for process in processes], errors


def final_hash(folder: Path, steps: int = BATCH_SIZE * NUM_ITERATIONS) -> str:
    saved = newest_valid(folder)
    assert saved is not None
    assert saved.name == f"step_{steps:012d}"
    manifest = read_manifest(saved)
    arrays = read_arrays(saved, manifest, manifest["arrays"])
    return hashlib.sha256(b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


def learned(folder: Path) -> list[dict[str, Any]]:
    """The records of a run without its times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("time/fps", "time/time_elapsed", "time/update_share", "time/environment_share")
    return [{name: value for name, value in line.items() if name not in times} for line in lines]


def num_records(folder: Path) -> int:
    metrics = folder / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


@pytest.mark.engines
def test_a_run_whose_process_is_killed_resumes_in_any_number_of_processes(tmp_path: Path) -> None:
    """Two processes, one is killed; two again, one gets SIGTERM; then four to the end: as one process alone."""
    alone = start(tmp_path / "alone", 1)
    together = tmp_path / "together"
    pause = Pause(tmp_path / "paused.1")
    processes = start(together, 2, pauses={1: pause})
    pause.wait_for(processes[1])
    processes[1].kill()
    codes, errors = finish(processes)
    assert codes == [75, -signal.SIGKILL]
    assert errors[0].splitlines() == [
        f"trustax: process 1 on {socket.gethostname()} has died, so this one stops; start all processes again with "
        "--resume"
    ]
    pause = Pause(tmp_path / "paused.2")
    processes = start(together, 2, "--resume", pauses={1: pause})
    pause.wait_for(processes[1])
    processes[1].send_signal(signal.SIGTERM)
    codes, errors = finish(processes)
    assert codes == [75, 75]
    assert "and saved" in errors[0]
    assert errors[0].splitlines()[-1] == errors[1].splitlines()[-1]
    assert 2 <= num_records(together) < NUM_ITERATIONS
    codes, errors = finish(start(together, 4, "--resume"))
    assert (codes, errors) == ([0] * 4, [""] * 4)
    assert finish(alone) == ([0], [""])
    assert final_hash(together) == final_hash(tmp_path / "alone")
    assert learned(together) == learned(tmp_path / "alone")
    assert (together / "run.json").read_bytes() == (tmp_path / "alone" / "run.json").read_bytes()
    assert (together / "curve.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gymnasium", "envpool"])
def test_host_environments_are_divided_over_processes(engine: str, tmp_path: Path) -> None:
    """Actions of all seeds of a process are chosen by one program, so the numbers agree up to rounding."""
    for number in (1, 2, 4):
        assert finish(start(tmp_path / str(number), number, "--env-id", f"{engine}:CartPole-v1"))[0] == [0] * number
    alone, *others = (learned(tmp_path / str(number)) for number in (1, 2, 4))
    for together in others:
        assert [set(record) for record in together] == [set(record) for record in alone]
        for name in ("rollout/ep_rew_mean", "train/value_loss"):
            mine, expected = ([value for record in run[5:10] for value in record[name]] for run in (together, alone))
            assert mine == pytest.approx(expected, rel=1e-3)


def two_processes() -> list[Distributed]:
    coordinator = f"localhost:{free_port()}"
    return [Distributed(coordinator=coordinator, num_processes=2, process_id=process) for process in range(2)]


def test_callbacks_stop_all_processes_after_the_same_iteration(tmp_path: Path) -> None:
    seen: list[tuple[int, range]] = []

    def stop(iteration: tx.Iteration) -> bool:
        seen.append((iteration.number, iteration.learners))
        return iteration.number in (2, 3)

    def trained(distributed: Distributed, resume: bool = False) -> tx.Result:
        evaluate = tx.Evaluate(interval=2, episodes=1)
        return tx.train(
            tx.PPO(hidden_sizes=(4,), num_epochs=1, num_minibatches=2),
            "CartPole-v1",
            num_seeds=2,
            num_envs=2,
            horizon=8,
            total_timesteps=128,
            run_dir=tmp_path,
            quiet=True,
            resume=resume,
            callbacks=[stop, evaluate, tx.KeepAgents(every=32)],
            distributed=distributed,
        )

    first, second = in_threads([partial(trained, distributed) for distributed in two_processes()])
    assert seen == [(1, range(0, 1)), (2, range(0, 1))]
    assert [int(result.state.iteration) for result in (first, second)] == [2, 2]
    assert first.records == second.records
    assert len(first.records[-1]["rollout/ep_rew_mean"]) == 2
    evaluation = json.loads((tmp_path / "evaluations.jsonl").read_text())
    assert (evaluation["time/total_timesteps"], len(evaluation["eval/mean_reward"])) == (32, 2)
    for seed in range(2):  # logged once, by process 0
        logged = curve(tmp_path / "tensorboard" / f"seed_{seed}", "eval/mean_reward")
        assert logged == [(32, evaluation["eval/mean_reward"][seed])]
    assert {path.name for path in (tmp_path / "agents").glob("*/*")} == {f"seed_{seed}.agent" for seed in range(2)}
    agents = [[result.agent(learner) for learner in range(2)] for result in (first, second)]
    for mine, other in zip(*agents, strict=True):
        np.testing.assert_array_equal(mine.policy.parameters, other.policy.parameters)
    with pytest.raises(tx.TrustaxError, match="learner must be between 0 and 1, not 2"):
        first.agent(2)
    # Had the processes been killed before their callbacks, these would be called after the resume.
    best, kept = ((tmp_path / name).read_bytes() for name in ("best.agent/arrays.safetensors", "evaluations.jsonl"))
    for name in ("agents", "best.agent"):
        shutil.rmtree(tmp_path / name)
    (tmp_path / "evaluations.jsonl").unlink()
    in_threads([partial(trained, distributed, resume=True) for distributed in two_processes()])
    assert [number for number, _ in seen] == [1, 2, 3]
    assert (tmp_path / "best.agent" / "arrays.safetensors").read_bytes() == best
    evaluations = (tmp_path / "evaluations.jsonl").read_bytes()
    assert evaluations.startswith(kept)
    assert [json.loads(line)["time/total_timesteps"] for line in evaluations.splitlines()] == [32, 48]
    assert {path.name for path in (tmp_path / "agents").glob("*/*")} == {f"seed_{seed}.agent" for seed in range(2)}


def test_an_error_in_one_process_ends_all(tmp_path: Path) -> None:
    def broken() -> Any:
        raise RuntimeError("no display")

    def trained(distributed: Distributed) -> tx.Result:
        run = tx.Run(algorithm=tx.PPO(num_minibatches=1), env_id="mine", num_seeds=2, horizon=8, total_timesteps=64)
        env = broken if distributed.process_id else partial(gymnasium.make, "CartPole-v1")
        return tx.train(run, env, run_dir=tmp_path, quiet=True, distributed=distributed)

    first, second = in_threads([partial(trained, distributed) for distributed in two_processes()])
    assert "no display" in str(second)
    assert str(first) == f"process 1 on {socket.gethostname()} stopped: {second}"
    assert isinstance(first, tx.TrustaxError)


def test_processes_with_different_engines_are_refused() -> None:
    """An id without a prefix may have another engine on a machine where not all are installed."""
    run = tx.Run(algorithm=tx.PPO(), env_id="Acrobot-v1", num_seeds=2)

    def join(distributed: Distributed, engine: str) -> None:
        with joined(distributed, run, engine):
            raise AssertionError

    pairs = zip(two_processes(), ("envpool", "gymnasium"), strict=True)
    for answer in in_threads([partial(join, *pair) for pair in pairs]):
        assert str(answer).startswith("process 1 has engine = gymnasium, but process 0 has envpool; start all")


def test_learners_are_divided_in_order() -> None:
    rates = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    run = tx.Run(algorithm=tx.PPO(learning_rate=rates), env_id="CartPole-v1", seed=7, num_seeds=6)
    parts = [Group(4, process).part_of(run) for process in range(4)]
    assert [list(part.seeds) for part in parts] == [[7, 8], [9, 10], [11], [12]]
    assert [rate for part in parts for rate in part.algorithm.learning_rate] == list(rates)
    repeated = tx.Run(algorithm=tx.PPO(), env_id="CartPole-v1", num_seeds=6, repeat_seeds=3)
    assert [list(Group(3, process).part_of(repeated).seeds) for process in range(3)] == [[0, 1]] * 3
    with pytest.raises(tx.TrustaxError, match="repeat_seeds is 3, which 2 processes cannot divide"):
        Group(2, 0).part_of(repeated)
    with pytest.raises(tx.TrustaxError, match="num_processes is 7, but num_seeds is 6"):
        Group(7, 0).part_of(run)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs coordinator"),
        ({"coordinator": "localhost", "num_processes": 2, "process_id": 0}, "coordinator must be HOST:PORT"),
        ({"coordinator": "localhost:1", "num_processes": 2, "process_id": 2}, "must be a number below num_processes"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(tx.TrustaxError, match=message):
        tx.train(tx.PPO(), "CartPole-v1", num_seeds=2, distributed=Distributed(**settings))


def test_a_metric_that_one_process_lacks_is_nan_for_its_learners() -> None:
    """Success is reported from the first episode that has it, which not all processes see at the same time."""
    state: Any = None
    parts = []
    for names in (["return"], ["success", "return"]):
        found = {name: np.array([1.0, 2.0]) for name in names}
        result = StepResult(state, found, {}, None, [-1, -1], Seconds(1.0, 1.0, None))
        parts.append(part_of(result, None, stop=False, save=False))
    metrics = merged(parts).metrics
    assert metrics["return"] == [1.0, 2.0, 1.0, 2.0]
    np.testing.assert_array_equal(metrics["success"], [np.nan, np.nan, 1.0, 2.0])
