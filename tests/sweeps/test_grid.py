"""A grid becomes as few runs as possible, and every cell of it is found again in the results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trustax.algorithms import MCPO, PPO
from trustax.cli.sweep import Sweep, separate
from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.sweeps.grid import Grid
from trustax.sweeps.options import EngineOptions
from trustax.sweeps.results import Finished, SweepResult
from trustax.sweeps.sweep import _folder_name, digest
from trustax.sweeps.worker import Job

METHODS = {"mcpo": MCPO(), "ppo": PPO()}


def test_settings_that_learners_can_differ_in_share_a_run() -> None:
    grid = Grid(METHODS, ["A-v0"], {"learning_rate": [1e-4, 1e-3], "memory_size": [5, 10], "num_seeds": [3]})
    runs = grid.expand()
    assert [run.algorithm_name for run, _ in runs] == ["mcpo", "mcpo", "ppo"]
    assert all(run.num_seeds == 6 and list(run.seeds) == [0, 1, 2, 0, 1, 2] for run, _ in runs)
    assert runs[2][0].algorithm.learning_rate == (1e-4,) * 3 + (1e-3,) * 3
    assert [(cell.label, cell.learners) for cell in runs[1][1]] == [
        ("mcpo learning_rate=0.0001 memory_size=10", range(0, 3)),
        ("mcpo learning_rate=0.001 memory_size=10", range(3, 6)),
    ]


def test_settings_that_fit_together_are_accepted_whatever_the_defaults_are() -> None:
    def run(method: PPO, **settings: list[Any]) -> Run:
        ((run, _),) = Grid({"ppo": method}, ["A-v0"], settings).expand()
        return run

    assert run(PPO(learning_rate=(1e-4, 1e-3)), num_seeds=[2]).num_seeds == 2
    assert run(PPO(num_minibatches=16384), num_envs=[64]).batch_size == 64 * 2048
    both = run(PPO(learning_rate=(1e-4, 1e-3)), num_seeds=[2], entropy_cost=[0.0, 0.1])
    assert both.algorithm.learning_rate == (1e-4, 1e-3, 1e-4, 1e-3)
    assert both.algorithm.entropy_cost == (0.0, 0.0, 0.1, 0.1)
    assert both == run(PPO(), num_seeds=[2], learning_rate=[(1e-4, 1e-3)], entropy_cost=[0.0, 0.1])
    replaced = run(PPO(learning_rate=(1e-4, 1e-3)), num_seeds=[1], learning_rate=[0.1, 0.2])
    assert replaced.algorithm.learning_rate == (0.1, 0.2)
    with pytest.raises(TrustaxError, match="learning_rate has 2 values, but num_seeds is 3"):
        run(PPO(learning_rate=(1e-4, 1e-3)), num_seeds=[3], entropy_cost=[0.0, 0.1])


def test_a_name_that_is_too_long_for_a_folder_is_cut(tmp_path: Path) -> None:
    assert _folder_name("word " * 49, "07414eb6") == "word-" * 48 + "word__07414eb6"  # 254 bytes
    names = [_folder_name("word " * 50, unique) for unique in ("07414eb6", "17414eb6")]
    assert names[0] != names[1]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.log").touch()


def test_a_setting_applies_to_the_methods_that_have_it() -> None:
    labels = [cell.label for _, cells in Grid(METHODS, ["A-v0"], {"memory_size": [5, 10]}).expand() for cell in cells]
    assert labels == ["mcpo memory_size=5", "mcpo memory_size=10", "ppo"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_sizes": [5]}, "memory_size"),
        ({"memory_size": []}, "memory_size has no value"),
        ({"memory_size": [5, 5]}, "twice"),
        ({"discount": [1, 1.0]}, "discount has a value twice: 1, 1.0"),
        ({"num_seeds": [1, 2]}, "one value"),
        ({"memory_size": [0]}, "memory_size must be"),
    ],
)
def test_mistakes_are_refused(settings: dict[str, list[int]], message: str) -> None:
    with pytest.raises(TrustaxError, match=message):
        Grid(METHODS, ["A-v0"], settings).expand()


def test_a_method_or_an_environment_is_not_trained_twice(tmp_path: Path) -> None:
    with pytest.raises(TrustaxError, match="the sweep has A-v0 twice"):
        Grid(METHODS, ["A-v0", "B-v0", "A-v0"])
    with pytest.raises(TrustaxError, match="the sweep has ppo twice"):
        Sweep(methods=("ppo", "mcpo", "ppo"), env_id=("native:CartPole-v1",), folder=str(tmp_path)).run({})


def test_settings_that_differ_in_the_last_digits_have_labels_of_their_own() -> None:
    runs = Grid({"ppo": PPO()}, ["A-v0"], {"discount": [0.99, 0.9999999, 1.0]}).expand()
    assert [cell.label for _, (cell,) in runs] == ["ppo discount=0.99", "ppo discount=0.9999999", "ppo discount=1.0"]


def test_a_sweep_in_which_no_episode_has_ended_shows_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((run, (cell,)),) = Grid({"ppo": PPO()}, ["A-v0"]).expand()
    job = Job(title="", run=run, folder=tmp_path / "run")
    result = SweepResult(tmp_path, [Finished(cell, job, np.array([np.nan]))])
    Sweep(methods=("ppo",))._show(result)
    assert repr(result) == f"SweepResult({str(tmp_path)!r}: 1 finished)"
    assert capsys.readouterr().out.splitlines()[-1] == f"results         {tmp_path}/results.csv"
    assert not (tmp_path / "curves.png").exists()


def test_a_grid_has_the_same_digest_only_if_it_has_the_same_runs() -> None:
    grids = [Grid(METHODS, ["A-v0"], {"memory_size": [5]}), Grid(METHODS, ["A-v0"], {"memory_size": [6]})]
    assert digest(grids[0]) == digest(Grid(METHODS, ["A-v0"], {"memory_size": [5]})) != digest(grids[1])


def test_options_of_the_sweep_are_separated_from_settings() -> None:
    own, settings = separate(
        [
            "ppo",
            "mcpo",
            "--env-id",
            "A",
            "B",
            "--jobs",
            "2",
            "--num-seeds=3",
            "--hidden-sizes",
            "64,64",
            "8,",
            "--x",
            "-1",
        ],
        Sweep,
    )
    assert own == ["ppo", "mcpo", "--env-id", "A", "B", "--jobs", "2"]
    assert settings == {"num_seeds": [3], "hidden_sizes": [(64, 64), (8,)], "x": [-1]}


def test_a_file_defines_a_sweep_and_options_take_precedence(tmp_path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text('methods = ["ppo"]\nenv_id = "A-v0"\nnum_seeds = 5\nclip_range = [0.1, 0.2]\n')
    methods, env_ids, settings = Sweep(methods=(str(path),))._definition({"num_seeds": [2]})
    assert (methods, env_ids) == (["ppo"], ["A-v0"])
    assert settings == {"num_seeds": [2], "clip_range": [0.1, 0.2]}


def test_an_option_of_another_engine_is_refused() -> None:
    with pytest.raises(TrustaxError, match="--address is not an option of the engine local; its options: --jobs"):
        EngineOptions(address="auto").make()
    with pytest.raises(TrustaxError, match="--jobs must be at least 1, not 0"):
        EngineOptions(jobs=0).make()
    with pytest.raises(TrustaxError, match="no engine for sweeps 'rya'; did you mean ray"):
        EngineOptions(engine="rya").make()


@pytest.mark.parametrize("gpus", [-1.0, float("nan"), float("inf"), 1.5])
def test_a_number_of_gpus_that_no_engine_can_give_is_refused(gpus: float) -> None:
    with pytest.raises(TrustaxError, match="--gpus-per-run must be from 0 to 1, or a whole number, not"):
        EngineOptions(engine="ray", gpus_per_run=gpus).make()


def test_repeated_seeds_divide_the_learners() -> None:
    with pytest.raises(TrustaxError, match="is not a multiple of"):
        Run(algorithm=PPO(), env_id="A-v0", num_seeds=3, repeat_seeds=2)


def test_results_have_a_column_for_each_setting_that_varies(tmp_path: Path) -> None:
    settings = {"learning_rate": [1e-4, 1e-3], "memory_size": [5], "num_epochs": [2]}
    finished = [
        Finished(cell, Job(title="", run=run, folder=tmp_path / "run"), np.array([3.5]))
        for run, cells in Grid(METHODS, ["A-v0"], settings).expand()
        for cell in cells
    ]
    assert repr(SweepResult(tmp_path, finished)).endswith(
        f"finished; best: {finished[0].cell.label} with a mean return of 3.5)"
    )
    lines = SweepResult(tmp_path, finished).save().read_text().splitlines()
    assert lines[0] == "label,method,learning_rate,env_id,seed,return,run"
    assert lines[4] == "ppo learning_rate=0.001,ppo,0.001,A-v0,0,3.5,run"
    assert "3.500" in list(SweepResult(tmp_path, finished).table().columns[1].cells)  # one seed has no interval
