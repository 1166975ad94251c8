"""Environments in worker processes: the same numbers, without JAX, and failures are named or repaired."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from gymnasium.vector.utils import CloudpickleWrapper
from reliability import workers as reliability

import trustax as tx
from tests.envs.modules_env import ForkingEnv, ModulesEnv, StoppedEnv
from trustax.envs.engines import make_with_workers
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.worker_handle import Worker
from trustax.envs.workers import Workers
from trustax.runtime.interrupt import ENDING, REPEATED


def played(workers: Workers, num_steps: int = 30) -> list[Any]:
    environment = GymnasiumHost(ModulesEnv, [0, 7], 3, workers=workers)
    generator = np.random.default_rng(0)
    try:
        first = environment.reset()
        return [first, *(environment.step(generator.integers(0, 2, (2, 3))) for _ in range(num_steps))]
    finally:
        environment.close()


def test_workers_give_the_same_numbers_without_jax() -> None:
    alone, divided = played(Workers()), played(Workers(4))
    for one, other in zip(alone[1:], divided[1:], strict=True):
        np.testing.assert_array_equal(one.observation[..., 2:], other.observation[..., 2:], strict=True)
        for name in ("reward", "terminated", "truncated", "success"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    assert {bool(step.terminated.any()) for step in alone[1:]} == {True, False}
    np.testing.assert_array_equal(divided[0][..., 2:], alone[0][..., 2:], strict=True)
    assert (alone[0][..., 1] == 1).all()
    assert (divided[0][..., 1] == 0).all()


@pytest.mark.parametrize(("fault", "restart"), [("kill", False), ("exception", True)])
def test_a_worker_that_fails_is_named_or_replaced(fault: str, restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests may keep this machine busy; a worker that does not answer would be named after a minute.
    monkeypatch.setattr(reliability, "SECONDS_TO_NAME", 50.0)
    monkeypatch.setattr(reliability, "SECONDS_TO_END", 600.0)
    reliability.try_case(fault, "step", restart)


def test_signals_to_all_processes_of_a_job_stop_its_run_and_not_its_workers(tmp_path: Path) -> None:
    algorithm = tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(4,))
    settings: dict[str, Any] = {"num_envs": 1, "horizon": 64, "total_timesteps": 640, "quiet": True}
    with pytest.raises(tx.Interrupted, match="stopped after 64 steps and saved"):
        tx.train(algorithm, StoppedEnv, run_dir=tmp_path / "run", num_workers=1, **settings)


def test_a_worker_ends_with_its_parent_and_not_by_a_signal() -> None:
    """Also where the system does not end it: it notices that its connection is closed."""
    worker = Worker(0, 0, 1)
    worker.ask("make", CloudpickleWrapper((ModulesEnv, None)), 1)
    worker.receive()
    for number in ENDING + REPEATED:
        os.kill(worker._process.pid, number)
    worker.ask("reset", [0])
    worker.receive()
    worker.connection.close()
    assert worker._process.wait(timeout=300) == 0


def test_an_environment_in_a_worker_can_end_the_processes_that_it_forks(recwarn: pytest.WarningsRecorder) -> None:
    GymnasiumHost(ForkingEnv, [0], 1, workers=Workers(1)).close()
    assert not recwarn.list


def test_only_gymnasium_needs_workers() -> None:
    with pytest.raises(tx.TrustaxError, match="CartPole-v1 runs on native, which needs none"):
        make_with_workers("CartPole-v1", [0], 4, Workers(2))


def test_settings_of_workers_that_make_no_sense_are_refused() -> None:
    def check(number: Any, timeout: Any = 60.0) -> None:  # not by the constructor, whose types the tests check
        Workers.__post_init__(cast(Any, SimpleNamespace(number=number, timeout=timeout, restart=False)))

    for number in (-1, 1.5, "2", True, None):
        with pytest.raises(tx.TrustaxError, match="num_workers must be a whole number of at least 0, not "):
            check(number)
    for timeout in (0, float("nan"), "60"):
        with pytest.raises(tx.TrustaxError, match="worker_timeout must be a positive number of seconds, not "):
            check(1, timeout)
    with pytest.raises(tx.TrustaxError, match="restart_workers=True needs worker processes; set num_workers"):
        Workers(0, restart=True)


@pytest.mark.slow
def test_every_failure_is_handled() -> None:
    tried, passed, failures = reliability.check()
    assert failures == []
    assert tried == passed == 25


@pytest.mark.slow
def test_a_run_with_workers_is_the_same_run() -> None:
    settings: dict[str, Any] = {"num_envs": 2, "horizon": 64, "total_timesteps": 512, "quiet": True}
    algorithm = tx.PPO(num_epochs=2, num_minibatches=4, hidden_sizes=(8,))
    alone, divided = (
        tx.train(algorithm, "gymnasium:CartPole-v1", num_workers=number, restart_workers=number > 0, **settings)
        for number in (0, 2)
    )
    for one, other in zip(alone.records, divided.records, strict=True):
        for name in ("rollout/ep_rew_mean", "train/loss"):
            assert one[name] == other[name], name
        assert other["env/restarts"] == 0
