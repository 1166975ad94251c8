"""The zoo: its settings make runs, its agents load, and its page says what is stored."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import trustax as tx
from trustax.cli import sweep as sweep_command
from trustax.cli.main import main
from trustax.cli.training import Train
from trustax.cli.tune import Tune
from trustax.run import from_json
from trustax.storage.zoo import entries, entry, run, tuned
from trustax.storage.zoo.table import page
from trustax.sweeps.grid import Grid

PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"
SETTINGS = [(method, task) for method in tuned.methods() for task in tuned.tasks(method)]
FIRST_TRIED = [
    *("CartPole-v1", "MountainCar-v0", "Pendulum-v1", "LunarLander-v3", "LunarLanderContinuous-v3"),
    *("BipedalWalker-v3", "Hopper-v5", "HalfCheetah-v5", "Walker2d-v5", "Ant-v5", "ALE/Breakout-v5"),
]


@pytest.mark.parametrize(("method", "task"), SETTINGS)
def test_settings_make_a_run(method: str, task: str) -> None:
    found = run(method, task, num_seeds=2)
    assert found.num_seeds == 2
    assert found.total_timesteps == tuned.tasks(method)[task]["total_timesteps"]
    assert found.batch_size % getattr(found.algorithm, "num_minibatches", 1) == 0


@pytest.mark.parametrize("env_id", FIRST_TRIED)
def test_the_tasks_that_users_try_first_have_settings(env_id: str) -> None:
    assert run("ppo", env_id).env_id == env_id


def test_the_command_line_takes_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[tx.Run] = []
    monkeypatch.setattr(Train, "__call__", lambda command: runs.append(command.run))
    for options in ("--env-id CartPole-v1", "--task pendulum", "--env-id envpool:CartPole-v1 --learning-rate 0.5"):
        with pytest.raises(SystemExit) as leaving:
            main(f"train ppo --settings zoo {options}".split())
        assert leaving.value.code == 0
    assert runs[:2] == [run("ppo", "CartPole-v1"), run("ppo", "Pendulum-v1")]
    assert runs[2] == run("ppo", "envpool:CartPole-v1", learning_rate=0.5)
    assert "settings of the zoo: total_timesteps 100000" in capsys.readouterr().out
    for options, message in (
        ("", "needs --env-id; ppo has CartPole-v1"),
        ("--env-id Acrobot-v1", "no settings of ppo"),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(f"train ppo --settings zoo {options}".split())
        assert leaving.value.code == 2
        assert message in capsys.readouterr().err


def test_a_sweep_starts_from_the_settings_of_each_method_and_task(monkeypatch: pytest.MonkeyPatch) -> None:
    grids: list[Grid] = []

    def stop_before_training(grid: Grid, *_: object) -> None:
        grids.append(grid)
        raise tx.TrustaxError("stopped")

    monkeypatch.setattr(sweep_command, "run_grid", stop_before_training)
    command = "sweep ppo mean-psi --env-id CartPole-v1 Pendulum-v1 --settings zoo --num-envs 2 --num-seeds 3"
    with pytest.raises(SystemExit):
        main(command.split())
    assert [found for found, _ in grids[0].expand()] == [
        run(method, task, num_envs=2, num_seeds=3)
        for task in ("CartPole-v1", "Pendulum-v1")
        for method in ("ppo", "mean-psi")
    ]


def test_a_study_starts_from_the_settings_of_the_zoo() -> None:
    command = Tune(method="ppo", env_id="CartPole-v1", settings="zoo", tune=("learning_rate:1e-5..1e-2:log",))
    assert command.tuning({"num_seeds": [2]}).run == run("ppo", "CartPole-v1", num_seeds=2)


def test_settings_that_do_not_exist_are_an_error_of_one_line() -> None:
    with pytest.raises(tx.TrustaxError, match=r"^the zoo has no settings of ppo for Hopper-v4; did you mean Hopper-v5"):
        run("ppo", "Hopper-v4")
    with pytest.raises(tx.TrustaxError, match=r"^the zoo has no settings of 'ppp'; did you mean ppo"):
        run("ppp", "CartPole-v1")


@pytest.mark.parametrize("found", entries(), ids=lambda found: found.name)
def test_an_agent_loads_and_is_small(found: tx.zoo.Entry) -> None:
    agent = tx.load(f"zoo:{found.name}")
    trained = from_json(found.result["run"])
    assert trained == run(found.method, found.task, num_seeds=trained.num_seeds)
    assert found.result["command"].startswith(f"trustax train {found.method} --env-id {found.task} --settings zoo")
    assert np.isfinite(agent.policy.parameters).all()
    assert found.size < 100_000


def test_the_zoo_is_small() -> None:
    assert sum(found.size for found in entries()) < 2_000_000


def test_the_page_has_the_stored_results() -> None:
    assert page(entries()) in PAGE.read_text(encoding="utf-8"), "run python benchmarks/zoo.py page"


def test_an_agent_that_does_not_exist_is_an_error_of_one_line() -> None:
    for name in ("ppo/CartPole-v0", "ppo", "../ppo/CartPole-v1", ""):
        with pytest.raises(tx.TrustaxError, match=r"^the zoo has no agent .*; (did you mean|choose one of) .*$"):
            tx.load(f"zoo:{name}")


def test_the_command_evaluates_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "agents" / "ppo" / "CartPole-v1"
    shutil.copytree(entry("ppo/CartPole-v1").folder, folder)
    monkeypatch.setattr("trustax.storage.zoo.stored.AGENTS", tmp_path / "agents")
    for command in (
        "zoo",
        "zoo evaluate --num-episodes 3 --store",
        f"zoo show ppo/CartPole-v1 --output {tmp_path}/film.gif",
    ):
        with pytest.raises(SystemExit) as leaving:
            main(command.split())
        assert leaving.value.code == 0
    said = capsys.readouterr().out
    assert "CartPole-v1" in said
    assert "recording" in said
    (evaluated,) = entries()
    assert evaluated.evaluation["num_episodes"] == 3
    assert evaluated.evaluation["mean"] > 100
    assert (tmp_path / "film.gif").stat().st_size > 0
