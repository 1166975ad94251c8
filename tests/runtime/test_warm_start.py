"""Runs that start from the policy of a trained agent."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import trustax as tx
from trustax.envs import make
from trustax.run import from_json, read_run, to_json
from trustax.runtime.state import start

SMALL: dict[str, Any] = {"num_envs": 2, "horizon": 32}
METHODS = [tx.PPO(), tx.MCPO(memory_size=3), tx.TRPO(), tx.ACKTR(), tx.VMPO()]


@pytest.fixture(scope="module")
def trained() -> tx.Agent:
    return tx.train(tx.PPO(num_minibatches=2), "CartPole-v1", total_timesteps=128, quiet=True, **SMALL).agent()


@pytest.fixture(scope="module")
def path(trained: tx.Agent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents") / "trained.agent"
    trained.save(path)
    return path


@pytest.mark.parametrize("algorithm", METHODS, ids=lambda algorithm: type(algorithm).__name__)
def test_learners_start_from_the_policy_of_the_agent(algorithm: tx.Algorithm, trained: tx.Agent) -> None:
    run = tx.Run(algorithm=algorithm, env_id="CartPole-v1", num_seeds=2, **SMALL)
    environment = make("CartPole-v1", run.seeds, run.num_envs)
    fresh, warm = (start(run, environment, agent) for agent in (None, trained))
    expected = np.stack([trained.policy.parameters] * 2)
    initial = np.asarray(fresh.learner.policy.parameters)
    for before, after in zip(jax.tree.leaves(fresh.learner), jax.tree.leaves(warm.learner), strict=True):
        if before.shape == initial.shape and np.array_equal(before, initial):  # a policy, or MCPO's virtual one
            np.testing.assert_array_equal(after, expected)
        elif before.ndim == 3 and np.array_equal(before[:, 0], initial):  # MCPO's memory
            np.testing.assert_array_equal(after[:, 0], expected)
            np.testing.assert_array_equal(after[:, 1:], before[:, 1:])
        else:
            np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(warm.learner.policy.parameters, expected)
    assert trained.statistics is not None
    np.testing.assert_array_equal(warm.observer.observation_statistics.count, [trained.statistics.count + 2] * 2)


def test_a_run_starts_from_an_agent_and_resumes_without_it(path: Path, trained: tx.Agent, tmp_path: Path) -> None:
    still = tx.PPO(num_minibatches=2, learning_rate=0.0)
    options: dict[str, Any] = {"quiet": True, "run_dir": tmp_path / "run", "loggers": [], **SMALL}
    copy = tmp_path / "copy.agent"
    tx.load(path).save(copy)
    result = tx.train(still, "CartPole-v1", total_timesteps=64, start_from=copy, **options)
    np.testing.assert_array_equal(result.agent().policy.parameters, trained.policy.parameters)
    assert read_run(tmp_path / "run").start_from == str(copy)
    copy.rename(tmp_path / "elsewhere")
    result = tx.train(still, "CartPole-v1", total_timesteps=128, start_from=copy, resume=True, **options)
    np.testing.assert_array_equal(result.agent().policy.parameters, trained.policy.parameters)


def test_an_agent_without_a_critic_gets_a_new_one(trained: tx.Agent, tmp_path: Path) -> None:
    trained.save(tmp_path / "actor", with_critic=False)
    run = tx.Run(algorithm=tx.PPO(), env_id="CartPole-v1", **SMALL)
    environment = make("CartPole-v1", run.seeds, run.num_envs)
    fresh, warm = start(run, environment), start(run, environment, tx.load(tmp_path / "actor"))
    critic = trained.policy.architecture.critic_mask()
    expected = np.where(critic, fresh.learner.policy.parameters[0], trained.policy.parameters)
    np.testing.assert_array_equal(warm.learner.policy.parameters[0], expected)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (
            {"hidden_sizes": (32,)},
            {},
            r"^the agent to start from has hidden_sizes = \(64, 64\), but the run has \(32,\)",
        ),
        ({}, {"normalize_observations": False}, r"was trained with normalized .*; change normalize_observations$"),
        ({}, {"env": "Pendulum-v1"}, r"^the agent has observations of shape \(4,\)"),
        ({}, {"start_from": "nowhere"}, r"^there is no agent at nowhere$"),
    ],
)
def test_an_agent_that_does_not_fit_is_an_error_of_one_line(
    settings: dict[str, Any], changes: dict[str, Any], message: str, path: Path
) -> None:
    options = {"env": "CartPole-v1", "start_from": path, "total_timesteps": 64, "quiet": True, **SMALL} | changes
    with pytest.raises(tx.TrustaxError, match=message):
        tx.train(tx.PPO(num_minibatches=2, **settings), **options)


def test_an_agent_must_be_given_by_its_path(trained: tx.Agent) -> None:
    with pytest.raises(tx.TrustaxError, match=r"^start_from must be a path"):
        tx.train(tx.PPO(), "CartPole-v1", start_from=trained)  # type: ignore[arg-type]


def test_other_runs_keep_their_files() -> None:
    run = tx.Run(algorithm=tx.PPO(), env_id="CartPole-v1")
    assert "start_from" not in to_json(run)
    started = tx.Run(algorithm=tx.PPO(), env_id="CartPole-v1", start_from="zoo:ppo/CartPole-v1")
    assert from_json(to_json(started)) == started
