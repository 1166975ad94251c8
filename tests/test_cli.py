"""The command line as a user meets it: what it prints, where it writes, how it refuses."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tests.test_check import OutOfBounds
from trustax.algorithms import PPO
from trustax.cli import main
from trustax.run import Run

QUICK = "--num-envs 2 --horizon 64 --total-timesteps 300 --num-minibatches 4 --num-epochs 1 --hidden-sizes 8 --quiet"


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments.split())
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


def test_a_run_is_trained_evaluated_plotted_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    code, out, _ = run(f"train mcpo --env-id CartPole-v1 --num-seeds 2 --run-dir {folder} {QUICK}", capsys)
    assert code == 0
    assert "total_timesteps 300 becomes 256: 2 iterations of 128 steps" in out
    assert str(folder / "curve.png") in out

    code, out, _ = run(f"evaluate {folder} --num-episodes 2", capsys)
    assert code == 0
    assert "over seeds" in out

    picture = tmp_path / "curves.svg"
    code, out, _ = run(f"plot {folder} --output {picture}", capsys)
    assert (code, out.strip()) == (0, str(picture))
    assert picture.stat().st_size > 0

    code, _, _ = run(f"resume {folder} --total-timesteps 512 --quiet", capsys)
    assert code == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_configuration_of_the_paper_goes_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["train", "MCPO N=5", *f"--env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}".split()])
    assert leaving.value.code == 0
    assert '"memory_size": 5,' in (tmp_path / "run" / "run.json").read_text()


def test_by_default_a_run_goes_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(f"train ppo --env-id native:CartPole-v1 --seed 3 {QUICK}", capsys)[0] == 0
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    assert folder.name.startswith("native-CartPole-v1__ppo__3__")


def test_help_and_version_cost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version", capsys)[1].startswith("trustax 0.")
    code, out, _ = run("--help", capsys)
    assert code == 0
    assert "train METHOD" in out
    code, out, _ = run("train mcpo --help", capsys)
    assert code == 0
    assert "How many past policies are remembered (N)." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tran", "there is no command 'tran'; did you mean train?"),
        ("train mcpoo", "there is no method 'mcpoo'; did you mean mcpo?"),
        ("train mcpo", "--env-id is missing"),
        ("train mcpo --task hoper", "the paper has no task 'hoper'; did you mean hopper"),
        (
            "train mcpo --env-id CartPole-v1 --memory-sise 3",
            "unknown option '--memory-sise'; did you mean --memory-size?",
        ),
        ("train ppo --env-id CartPole-v1 --memory-size 3", "unknown option '--memory-size'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds many", "Error parsing --num-seeds"),
        ("train mcpo --env-id CartPole-v1 --kl-cost-rule free", "invalid choice 'free'"),
        ("train mcpo --env-id CartPole-v1 --num-seeds 0", "num_seeds must be at least 1, not 0"),
        ("train mcpo --env-id CartPool-v1", "there is no environment 'CartPool-v1'; did you mean CartPole-v1"),
        ("train mcpo --env-id gymnasium:MountainCar-v0 --run-dir /proc/run", "/proc/run cannot be written"),
        ("check CartPool-v1", "there is no environment 'CartPool-v1'; did you mean CartPole-v1"),
        ("check", "Missing from trustax check: ENV"),
        ("evaluate nowhere", "nowhere is no run folder"),
        ("train ppo --task hopper --env-id Ant-v5", "--task hopper and --env-id Ant-v5 both name an environment"),
        ("plot", "plot needs the folder of at least one run"),
    ],
)
def test_a_mistake_is_answered_in_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(arguments, capsys)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("trustax: ")


def test_an_environment_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("check gymnasium:MountainCar-v0", capsys)
    assert code == 0
    assert "fit for training" in out
    gymnasium.register("TrustaxOutOfBounds-v0", OutOfBounds)
    try:
        code, out, _ = run("check TrustaxOutOfBounds-v0", capsys)
    finally:
        del gymnasium.registry["TrustaxOutOfBounds-v0"]
    assert code == 1
    assert "✗  their values" in out


def test_an_existing_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"train ppo --env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}"
    assert run(command, capsys)[0] == 0
    code, _, err = run(command, capsys)
    assert code == 2
    assert "holds a run already; resume it or choose another folder" in err
    assert run(f"{command} --resume", capsys)[0] == 0


def test_a_run_file_may_not_make_us_import_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"train ppo --env-id CartPole-v1 --run-dir {tmp_path / 'run'} {QUICK}", capsys)[0] == 0
    definition = tmp_path / "run" / "run.json"
    definition.write_text(definition.read_text().replace('"CartPole-v1"', '"gymnasium:os:CartPole-v1"'))
    for command in ("evaluate", "resume"):
        code, _, err = run(f"{command} {tmp_path / 'run'}", capsys)
        assert code == 2
        assert "imports a module, which a file may not ask for" in err


@pytest.mark.parametrize("option", ["--task pendulum", "--env-id Pendulum-v1", "--env-id=native:Pendulum-v1"])
def test_a_task_brings_the_settings_of_the_paper(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("trustax.commands.Train.__call__", lambda command: asked.append(command.run))
    code, out, _ = run(f"train ppo {option} --horizon 64", capsys)
    assert code == 0
    assert "settings of the paper unless you set them: 4 environments × 2048 steps" in out
    assert asked[0].env_id.endswith("Pendulum-v1")
    assert (asked[0].horizon, asked[0].total_timesteps) == (64, 1_000_000)


def test_an_environment_of_no_task_keeps_the_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("trustax.commands.Train.__call__", lambda command: asked.append(command.run))
    _, out, _ = run("train ppo --env-id CartPole-v1", capsys)
    assert out == ""
    assert asked == [Run(algorithm=PPO(), env_id="CartPole-v1")]
