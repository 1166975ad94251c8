"""Every task of the paper has the paper's settings and trains with every method."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trustax.algorithms import ALGORITHMS, MCPO, TRPO
from trustax.envs import make
from trustax.errors import TrustaxError
from trustax.paper.tasks import TASKS, task, task_of
from trustax.training import train

ATARI = ["beam-rider", "breakout", "enduro", "gopher", "seaquest", "space-invaders"]
SMALL = {"hidden_sizes": (8,), "value_epochs": 1, "memory_size": 3}


def trained(name: str, kind: Any) -> Any:
    """Train two iterations of a scaled-down task."""
    known = {field.name for field in dataclasses.fields(kind)}
    known -= {"hidden_sizes"} if name in ATARI else set()  # which networks for images do not have
    small = {field: value for field, value in SMALL.items() if field in known}
    horizon = 4 if name in ATARI else 32
    tiny = dataclasses.replace(task(name), num_envs=2, horizon=horizon, num_epochs=1, num_minibatches=2)
    return train(tiny.run(kind(**small), total_timesteps=2 * 2 * horizon), quiet=True)


TRAINED = {
    "pendulum": "mcpo",
    "lunar-lander": "ppo",
    "bipedal-walker": "kl-fixed",
    "unlock": "mcpo",
    "hopper": "trgppo",
    "breakout": "mcpo",
}
"""One task of each engine and kind of observation, with the method that the fast half trains there."""


def pairs() -> Iterator[Any]:
    """Every task with every method; tests/algorithms/test_contract.py trains all methods in the fast half."""
    for name in (name for name in TASKS if name not in ATARI[:1] + ATARI[2:]):
        for method in ALGORITHMS:
            yield pytest.param(name, method, marks=[] if method == TRAINED.get(name) else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "method"), list(pairs()))
def test_a_task_trains_with_every_method(name: str, method: str) -> None:
    result = trained(name, ALGORITHMS[method])
    assert len(result.records) == 2
    assert all(np.isfinite(record["train/loss"]).all() for record in result.records)


@pytest.mark.parametrize("name", [name for name in TASKS if name not in TRAINED])
def test_a_task_starts(name: str) -> None:
    """These tasks differ from one that is trained only in the sizes of observations and actions."""
    environment = make(task(name).env_id, [0], 1, compiled=False)
    try:
        observation = environment.reset()
        assert np.shape(observation) == (1, 1, *environment.spec.observation_shape)
        assert (environment.spec.observation_shape == (4, 84, 84)) == (name in ATARI)
    finally:
        environment.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ATARI[:1] + ATARI[2:])
def test_the_other_games_train(name: str) -> None:
    assert np.isfinite(trained(name, MCPO).records[-1]["train/loss"]).all()


@pytest.mark.parametrize(
    ("name", "num_envs", "horizon", "steps", "epochs", "minibatches", "rate", "value_cost", "entropy_cost"),
    [
        ("pendulum", 4, 2048, 1_000_000, 10, 64, 3e-4, 0.5, 0.0),
        ("bipedal-walker", 32, 2048, 5_000_000, 10, 64, 3e-4, 0.5, 0.0),
        ("bipedal-walker-hardcore", 128, 2048, 50_000_000, 10, 64, 3e-4, 0.5, 0.0),
        ("unlock", 4, 2048, 100_000, 10, 64, 3e-4, 0.5, 0.0),
        ("hopper", 16, 2048, 10_000_000, 10, 32, 3e-4, 0.5, 0.0),
        ("breakout", 32, 128, 10_000_000, 4, 32, 2.5e-4, 1.0, 0.01),
    ],
)
def test_a_task_has_the_papers_settings(
    name: str,
    num_envs: int,
    horizon: int,
    steps: int,
    epochs: int,
    minibatches: int,
    rate: float,
    value_cost: float,
    entropy_cost: float,
) -> None:
    run = task(name).run(MCPO())
    assert (run.num_envs, run.horizon, run.total_timesteps) == (num_envs, horizon, steps)
    assert (run.algorithm.num_epochs, run.algorithm.num_minibatches) == (epochs, minibatches)
    assert (run.algorithm.learning_rate, run.algorithm.value_cost) == (rate, value_cost)
    assert run.algorithm.entropy_cost == entropy_cost


def test_a_method_with_its_own_optimizer_keeps_its_step_size() -> None:
    assert task("breakout").tuned(TRPO()).learning_rate == TRPO().learning_rate
    assert task("breakout").tuned(TRPO()).num_minibatches == 32


def test_settings_can_be_overridden() -> None:
    run = task("hopper").run(MCPO(), total_timesteps=1_000_000, num_seeds=3)
    assert (run.total_timesteps, run.num_seeds, run.num_envs) == (1_000_000, 3, 16)


def test_an_environment_id_finds_its_task_for_any_engine_and_version() -> None:
    for env_id in ("Hopper-v5", "Hopper-v4", "envpool:Hopper-v5", "gymnasium:Hopper-v4"):
        assert task_of(env_id) is TASKS["hopper"]
    assert task_of("gymnasium:ALE/Breakout-v5") is TASKS["breakout"]
    assert task_of("BipedalWalkerHardcore-v3") is TASKS["bipedal-walker-hardcore"]
    assert task_of("CartPole-v1") is None


def test_all_atari_games_share_their_settings() -> None:
    pong, breakout = task_of("Pong-v5"), task("breakout")
    assert pong is not None
    assert dataclasses.replace(pong, env_id="") == dataclasses.replace(breakout, env_id="")


def test_an_unknown_task_gets_a_suggestion() -> None:
    with pytest.raises(TrustaxError, match="no task 'hoper'; did you mean hopper"):
        task("hoper")
