"""Environments divided over devices: one update is that of the undivided batch, and a run can be resumed."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import trustax as tx
from tests.pausing import Pause
from tests.runtime.test_distributed import NUM_ITERATIONS, final_hash, finish, learned, num_records
from tests.runtime.test_distributed import start as start_processes
from trustax.envs import make
from trustax.run import from_json, to_json
from trustax.runtime.env_shards import EnvPlacement
from trustax.runtime.state import learner_values, start
from trustax.runtime.train_step import TrainStep, _learn
from trustax.types import Progress

NUM_SHARDS = 2
# One minibatch, which has the same samples divided and undivided: with several, every device shuffles its own samples.
METHODS = {
    "ppo": tx.PPO(num_epochs=2, num_minibatches=1, hidden_sizes=(4,)),
    "mcpo": tx.MCPO(num_epochs=2, num_minibatches=1, hidden_sizes=(4,), memory_size=2),
}
PROGRAM = "import json, sys; from tests.runtime.test_env_shards import {0}; print(json.dumps({0}(*sys.argv[1:])))"


def run_of(method: str, env_shards: int = NUM_SHARDS) -> tx.Run:
    settings: dict[str, Any] = {"num_seeds": 2, "num_envs": 4, "horizon": 16, "total_timesteps": 64 * 6}
    return tx.Run(algorithm=METHODS[method], env_id="CartPole-v1", env_shards=env_shards, **settings)


def distances(method: str) -> list[float]:
    """After one divided and one undivided update on the same rollout: how far apart, and how far from the start."""
    run = run_of(method)
    environment = make(run.env_id, run.seeds, run.num_envs)
    step = TrainStep(run, environment)
    state = step.place(start(run, environment))
    old = np.asarray(state.learner.policy.parameters)
    collect_keys, learn_keys = step._keys(state.keys, state.iteration)
    observer, _, rollout, _ = step._collect(*step._collect_arguments(state, collect_keys))
    assert len(rollout.reward.sharding.device_set) == NUM_SHARDS
    # The observations of the whole batch, with the statistics of the whole batch.
    assert np.abs(np.asarray(observer.observation_statistics.count) - 4 * 17).max() < 1e-3
    arguments = jax.device_get((state.learner, rollout, learn_keys, learner_values(run), Progress(0, 6)))
    undivided, *_ = jax.jit(partial(_learn, run.algorithm, ()))(*arguments)
    divided, *_ = EnvPlacement(NUM_SHARDS).learn(partial(_learn, run.algorithm, ()))(*arguments)
    new, expected = (np.asarray(learner.policy.parameters) for learner in (divided, undivided))
    return [float(np.abs(new - expected).max()), float(np.abs(expected - old).max())]


def resumed(folder: str) -> list[Any]:
    """Train a run without and with an interruption; the parameters of both, and the settings in run.json."""
    run = replace(run_of("ppo"), algorithm=replace(METHODS["ppo"], num_minibatches=4))
    whole = tx.train(run, quiet=True)
    options: dict[str, Any] = {"run_dir": folder, "quiet": True, "loggers": []}
    tx.train(run, callbacks=[lambda iteration: iteration.number == 3], **options)
    part = tx.train(run, resume=True, **options)
    policies = [np.asarray(result.state.learner.policy.parameters).tolist() for result in (whole, part)]
    return [*policies, json.loads((Path(folder) / "run.json").read_text())["env_shards"], len(part.records)]


def on_devices(function: str, *arguments: str) -> Any:
    """Call a function of this file in a process with several CPU devices."""
    environment = os.environ | {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", PROGRAM.format(function), *arguments]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize("method", ["ppo", pytest.param("mcpo", marks=pytest.mark.slow)])
def test_an_update_of_divided_environments_is_that_of_the_whole_batch(method: str) -> None:
    apart, moved = on_devices("distances", method)
    assert moved > 3e-4
    assert apart < 1e-2 * moved


def test_a_run_with_divided_environments_resumes_exactly(tmp_path: Path) -> None:
    whole, part, env_shards, num_records = on_devices("resumed", str(tmp_path / "run"))
    assert whole == part
    assert (env_shards, num_records) == (NUM_SHARDS, 6)


@pytest.mark.engines
def test_environments_are_divided_over_processes(tmp_path: Path) -> None:
    """Two processes with one device each, of which first one and then the other is killed; then one with two."""
    options = ("--num-envs", "4", "--env-shards", "2", "--total-timesteps", str(32 * NUM_ITERATIONS))
    alone, together = tmp_path / "alone", tmp_path / "together"
    reference = start_processes(alone, 1, *options)
    for victim, survivor in ((0, 1), (1, 0)):
        pause = Pause(tmp_path / f"paused.{victim}")
        processes = start_processes(together, 2, *options, "--resume", pauses={victim: pause})
        pause.wait_for(processes[victim])
        processes[victim].kill()
        codes, errors = finish(processes)
        assert (codes[victim], codes[survivor]) == (-signal.SIGKILL, 75)
        assert f"process {victim} on {socket.gethostname()} has died" in errors[survivor].splitlines()[-1]
    assert 0 < num_records(together) < NUM_ITERATIONS
    assert finish(start_processes(together, 1, *options, "--resume"))[0] == [0]
    assert finish(reference)[0] == [0]
    assert final_hash(together, 32 * NUM_ITERATIONS) == final_hash(alone, 32 * NUM_ITERATIONS)
    assert learned(together) == learned(alone)


def test_what_cannot_be_divided_is_named() -> None:
    with pytest.raises(tx.TrustaxError, match="num_envs is 4, which is not a multiple of env_shards = 3"):
        run_of("ppo", env_shards=3)
    with pytest.raises(tx.TrustaxError, match="each of the 2 devices has only 2 samples"):
        tx.Run(algorithm=tx.PPO(num_minibatches=4), env_id="CartPole-v1", num_envs=2, horizon=2, env_shards=2)
    small: dict[str, Any] = {"num_envs": 8, "horizon": 64, "total_timesteps": 512, "env_shards": 8, "quiet": True}
    with pytest.raises(tx.TrustaxError, match="trpo cannot divide its environments"):
        tx.train(tx.TRPO(hidden_sizes=(4,)), "CartPole-v1", **small)
    with pytest.raises(tx.TrustaxError, match="gymnasium:CartPole-v1 is not"):
        tx.train(tx.PPO(hidden_sizes=(4,)), "gymnasium:CartPole-v1", **small)
    with pytest.raises(tx.TrustaxError, match=r"env_shards is 8, but the number of devices is \d"):
        tx.train(tx.PPO(hidden_sizes=(4,)), "CartPole-v1", **small)


def test_undivided_runs_have_the_settings_of_earlier_versions() -> None:
    for env_shards in (1, 2):
        values = to_json(run_of("ppo", env_shards))
        assert values.get("env_shards", 1) == env_shards
        assert from_json(values) == run_of("ppo", env_shards)
    assert "env_shards" not in to_json(run_of("ppo", env_shards=1))
