"""A study suggests, prunes, continues after an interruption, and leaves settings that `trustax train` takes."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trustax.algorithms import PPO
from trustax.cli.main import _default_run
from trustax.cli.sweep import separate
from trustax.cli.tune import Tune, parse_space
from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, SKIPPED, STEP
from trustax.run import Run, read_run, to_json, write_run
from trustax.storage.history import checkpoint_path, newest_valid
from trustax.storage.pytree import copy_rows, load, save
from trustax.sweeps.halving import TrialGroup, halve, planned_steps, rungs
from trustax.sweeps.objectives import area, final, reported_values
from trustax.sweeps.pool import Failure
from trustax.sweeps.ranges import Range, checked_space, choice_of, default_choice
from trustax.sweeps.tuning import tune
from trustax.sweeps.tuning_results import TuningResult
from trustax.sweeps.worker import Job

RUN = Run(algorithm=PPO(hidden_sizes=(8,)), env_id="native:CartPole-v1", num_seeds=2)
TINY: dict[str, Any] = {"num_envs": 2, "horizon": 64, "total_timesteps": 3 * 128, "num_seeds": 2}
SPACE = {"learning_rate": Range(1e-4, 1e-2, log=True), "clip_range": [0.1, 0.2, 0.3]}


class StoppedError(Exception):
    pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat:1e-5..1e-2", "ppo has no setting 'learning_rat' to tune; did you mean learning_rate"),
        ("lr:1e-5..1e-2", "here it is called learning_rate"),
        ("learning_rate:1e-2..1e-5", "from a lower to a higher number, not from 0.01 to 1e-05"),
        ("learning_rate:0..1:log", "a range with log must start above 0"),
        ("learning_rate:-1.0..1", "learning_rate must be at least 0, not -1"),
        ("learning_rate:a..b", "is not a range; write learning_rate:LOW..HIGH"),
        ("learning_rate:1e-5..1e-2:lin", "is not a range; write learning_rate:LOW..HIGH"),
        ("learning_rate", "--tune learning_rate has no values; write learning_rate:LOW..HIGH"),
        ("num_epochs:1.5..3", "num_epochs takes whole numbers, not 1.5..3"),
        (
            "activation:1..3",
            "activation is not a number, so it has no range; give choices, for example activation:tanh",
        ),
        ("activation:tanh,relux", "'relux'"),
        ("clip_range:0.2", "clip_range needs a range or at least two different choices"),
        ("total_timesteps:1..9", "total_timesteps cannot be tuned"),
    ],
)
def test_mistakes_get_a_one_line_error(text: str, message: str) -> None:
    with pytest.raises(TrustaxError) as caught:
        checked_space(RUN, parse_space([text]))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tuple_of_two_numbers_is_refused_because_it_may_be_a_range() -> None:
    with pytest.raises(TrustaxError, match=r"write tx.Range\(1e-05, 0.01\) for a range or \[1e-05, 0.01\] for two cho"):
        checked_space(RUN, {"learning_rate": (1e-5, 1e-2)})
    space: dict[str, Any] = {"learning_rate": [1e-5, 1e-2], "clip_range": (0.1, 0.2, 0.3)}
    assert checked_space(RUN, space) == {"learning_rate": (1e-5, 1e-2), "clip_range": (0.1, 0.2, 0.3)}


def test_a_command_defines_a_study() -> None:
    arguments = "ppo --env-id CartPole-v1 --tune learning_rate:1e-5..1e-2:log hidden_sizes:8x8,16x16 --trials 4"
    _, settings = separate([*arguments.split(), "--num-seeds", "2", "--jobs", "1", "--gae-lambda=0.9"], Tune)
    assert settings == {"num_seeds": [2], "gae_lambda": [0.9]}
    command = Tune(method="ppo", env_id="CartPole-v1", tune=("learning_rate:1e-5..1e-2:log", "hidden_sizes:8x8,16x16"))
    tuning = command.tuning(settings)
    assert (tuning.run.num_seeds, tuning.run.algorithm.gae_lambda) == (2, 0.9)
    assert tuning.space == {"learning_rate": Range(1e-5, 1e-2, log=True), "hidden_sizes": ((8, 8), (16, 16))}
    assert choice_of(tuning.space, {"learning_rate": 1e-3, "hidden_sizes": "16x16"})["hidden_sizes"] == (16, 16)
    with pytest.raises(TrustaxError, match=r"--num-envs needs one value; to tune it, name it in --tune"):
        command.tuning({"num_envs": [1, 2]})
    with pytest.raises(TrustaxError, match=r"unknown option '--trial'; did you mean --trials\?"):
        command.tuning({"trial": [40]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": ()}, "--tune is missing"),
        ({"tune": ("clip_range",)}, "--tune clip_range has no values"),
        ({"env_id": "CartPool-v1"}, "there is no environment 'CartPool-v1'"),
        ({}, "there is no file nowhere.toml"),
    ],
)
def test_options_are_checked_before_the_settings_file_is_read(options: dict[str, Any], message: str) -> None:
    command = Tune(method="ppo", tune=("clip_range:0.1..0.4",), settings="nowhere.toml")
    with pytest.raises(TrustaxError, match=message):
        replace(command, **options).tuning({})


def test_the_default_settings_are_a_trial_only_if_they_are_in_the_ranges() -> None:
    assert default_choice(RUN, {"clip_range": Range(0.1, 0.4), "hidden_sizes": ((8,), (9,))}) == {
        "clip_range": 0.2,
        "hidden_sizes": "8",
    }
    assert default_choice(RUN, {"clip_range": Range(0.3, 0.4)}) is None
    assert default_choice(RUN, {"activation": ("relu", "elu")}) is None


def test_pruning_costs_less_than_a_third() -> None:
    run = Run(algorithm=PPO(), env_id="A-v0", total_timesteps=200_000)
    assert rungs(run, reduction=3) == [3 * 8192, 8 * 8192, 200_000]
    assert planned_steps(run, 8, reduction=3) < planned_steps(run, 8, reduction=1) / 3
    assert planned_steps(run, 8, reduction=1) == 8 * 24 * 8192


def test_trials_that_differ_in_mapped_settings_are_learners_of_one_run() -> None:
    group = TrialGroup.of(
        RUN, {4: {"clip_range": 0.1, "num_epochs": 3}, 6: {"clip_range": 0.2, "num_epochs": 3}}, Path()
    )
    assert group.run.algorithm.clip_range == (0.1, 0.1, 0.2, 0.2)
    assert (group.run.algorithm.num_epochs, group.run.num_seeds, list(group.run.seeds)) == (3, 4, [0, 1, 0, 1])
    assert group.learners(6) == slice(2, 4)
    base = replace(RUN, algorithm=PPO(entropy_cost=(0.0, 0.1)))
    both = TrialGroup.of(base, {4: {"clip_range": 0.1}, 6: {"clip_range": 0.2}}, Path())
    assert both.run.algorithm.entropy_cost == (0.0, 0.1, 0.0, 0.1)


def test_objectives_need_an_episode_of_each_seed() -> None:
    records = [{STEP: 8, RETURN: [None, 1.0]}, {STEP: 16, RETURN: [2.0, 3.0]}]
    assert np.isnan(final(records[:1], slice(0, 2)))
    assert np.isnan(area(records[:1], slice(0, 2)))
    assert list(reported_values(final, records, slice(0, 2), known=[])) == [(16, 2.5)]
    assert list(reported_values(final, records, slice(1, 2), known=[8])) == [(16, 3.0)]


def test_a_checkpoint_is_copied_with_some_of_its_rows(tmp_path: Path) -> None:
    save(tmp_path / "all", {"weights": np.arange(6).reshape(3, 2), "iteration": np.array(7)}, {"a": 1})
    copy_rows(tmp_path / "all", tmp_path / "some" / "copy", [2, 0], {"a": 2})
    template = {"weights": np.zeros((2, 2), int), "iteration": np.array(0)}
    copied = load(tmp_path / "some" / "copy", template)
    assert copied["weights"].tolist() == [[4, 5], [0, 1]]
    assert copied["iteration"] == 7


def pretend_to_train(jobs: Sequence[Job]) -> list[Failure]:
    """Write folders as training does. The return grows with the clip range, and learning rates above 0.5 diverge."""
    failures = []
    for job in jobs:
        run, steps = job.run, job.run.batch_size
        rates = run.algorithm.learning_rate
        done = len((job.folder / "metrics.jsonl").read_text().splitlines()) if job.folder.exists() else 0
        job.folder.mkdir(parents=True, exist_ok=True)
        write_run(run, job.folder)
        with open(job.folder / "metrics.jsonl", "a") as file:
            for number in range(done + 1, job.steps // steps + 1):
                skipped = [number * (rate > 0.5) for rate in rates]
                record = {STEP: number * steps, RETURN: run.algorithm.clip_range, SKIPPED: skipped}
                file.write(json.dumps(record) + "\n")
                if max(skipped) >= 10:
                    failures.append(Failure(job, "diverged"))
                    break
                arrays = {"keys": np.array(rates)[:, None], "iteration": np.array(number)}
                save(checkpoint_path(job.folder, number * steps), arrays, {"kind": "run", "run": to_json(run)})
    return failures


def test_a_generation_is_halved_and_diverging_trials_fail_alone(tmp_path: Path) -> None:
    base = replace(RUN, algorithm=PPO(num_minibatches=2), total_timesteps=36 * 64, num_envs=1, horizon=64)
    choices: dict[int, dict[str, Any]] = {
        number: {"clip_range": number / 10, "learning_rate": 0.1, "num_epochs": 1 + number % 2, "num_minibatches": 2}
        for number in range(9)
    }
    choices[8]["learning_rate"] = 0.9  # diverges after ten iterations, between the first and the second rung
    choices[1]["num_minibatches"] = 65  # more than an iteration has steps
    trained: list[int] = []

    def train(jobs: Sequence[Job]) -> list[Failure]:
        trained.append(len(jobs))
        return pretend_to_train(jobs)

    reports: list[int] = []
    outcomes = halve(base, choices, tmp_path, 3, train, final, lambda number, *_: reports.append(number))
    states = {number: (outcome.state, outcome.steps // 64) for number, outcome in sorted(outcomes.items())}
    assert (states[8], states[1]) == (("failed", 10), ("failed", 0))
    assert "num_minibatches is 65" in outcomes[1].reason
    assert [number for number, state in states.items() if state == ("pruned", 4)] == [0, 2, 3, 4, 5]
    assert (states[6], states[7]) == (("pruned", 12), ("complete", 36))
    assert trained == [2, 2, 1, 1]  # even and odd trials apart, to two rungs; the rest of a failed run; the best trial
    assert reports.count(7) == 3
    # All is in the folders: nothing is trained again, except the run that failed up to its failure.
    trained.clear()
    again = halve(base, choices, tmp_path, 3, train, final, lambda *_: None)
    assert all(again[number].state == outcomes[number].state for number in choices)
    assert trained == [1]


def test_trials_with_iterations_of_other_lengths_are_compared_after_the_same_steps(tmp_path: Path) -> None:
    base = replace(RUN, algorithm=PPO(num_minibatches=2), total_timesteps=36 * 64, num_envs=1, horizon=64)
    choices = {
        number: {"clip_range": 0.1 + number / 100, "learning_rate": 0.1, "horizon": horizon}
        for number, horizon in enumerate((16, 32, 64, 100, 256))
    }
    outcomes = halve(base, choices, tmp_path, 3, pretend_to_train, final, lambda *_: None)
    # A ninth is 256 steps, which trial 3 reaches in 300; trial 4 needs two iterations, and a whole number of its own.
    assert [outcomes[number].steps for number in range(5)] == [256, 256, 256, 800, 2304]
    whole = dict.fromkeys(range(4), choices[3])
    outcomes = halve(base, whole, tmp_path / "whole", 1, pretend_to_train, final, lambda *_: None)
    assert {outcome.steps for outcome in outcomes.values()} == {2300}


def test_no_trial_is_pruned_before_an_episode_has_ended(tmp_path: Path) -> None:
    base = replace(RUN, algorithm=PPO(num_minibatches=2), total_timesteps=36 * 64, num_envs=1, horizon=64)
    choices = {number: {"clip_range": 0.1 + number / 10, "learning_rate": 0.1} for number in range(6)}

    def late(records: Sequence[Any], learners: slice) -> float:
        return final(records, learners) if records[-1][STEP] >= 12 * 64 else float("nan")

    outcomes = halve(base, choices, tmp_path, 3, pretend_to_train, late, lambda *_: None)
    states = {number: (outcome.state, outcome.steps // 64) for number, outcome in outcomes.items()}
    assert states == dict.fromkeys(range(4), ("pruned", 12)) | dict.fromkeys((4, 5), ("complete", 36))


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of six trials that was interrupted after four."""
    return tmp_path_factory.mktemp("studies") / "study"


def tiny_study(folder: Path, **options: Any) -> Any:
    method = PPO(hidden_sizes=(8,), num_minibatches=2, num_epochs=1)
    return tune(method, "native:CartPole-v1", SPACE, folder=folder, generation_size=3, quiet=True, **TINY | options)


def test_an_interrupted_study_continues_without_repeating_a_trial(study_folder: Path) -> None:
    told: list[int] = []

    def stop_in_the_second_generation(study: Any, trial: Any) -> None:
        told.append(trial.number)
        if len(told) == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        tiny_study(study_folder, trials=6, callbacks=[stop_in_the_second_generation])
    result = tiny_study(study_folder, trials=6, callbacks=[lambda study, trial: told.append(trial.number)])
    assert sorted(told) == list(range(6))
    trials = result.study.trials
    assert len(trials) == 6
    assert len({json.dumps(trial.params) for trial in trials}) == 6
    assert trials[0].params == {"learning_rate": 3e-4, "clip_range": 0.2}
    states = [trial.state.name for trial in trials]
    assert (states[:3].count("COMPLETE"), states[3:].count("COMPLETE")) == (1, 1)
    assert result.steps == (6 * 2 + 2) * 128 * 2  # two iterations of each trial, and a third one of the best ones
    best = max((trial for trial in trials if trial.state.name == "COMPLETE"), key=lambda trial: trial.value)
    assert result.best_settings == best.params
    # Each survivor has a run of its own, which continues from its learners in the run of the generation.
    survivor = next(path for path in (study_folder / "runs").glob("trial-*") if f"-{best.number}__" in path.name)
    assert read_run(survivor).num_seeds == 2
    assert newest_valid(survivor).name == "step_000000000384"
    lines = (survivor / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)[STEP] for line in lines] == [128, 256, 384]


def test_a_finished_study_gives_a_table_a_picture_and_settings(study_folder: Path) -> None:
    (study_folder / "best.toml").unlink()  # a kill before it was written
    result = tiny_study(study_folder, trials=6)
    assert result.table().row_count == 6
    result.plot(study_folder / "tuning.png")
    assert (study_folder / "tuning.png").stat().st_size > 10_000
    run, _ = _default_run(PPO(), ["--settings", str(result.settings_file)])
    assert run.algorithm == result.best_run.algorithm
    assert (run.env_id, run.horizon, run.total_timesteps) == ("native:CartPole-v1", 64, 384)
    with pytest.raises(TrustaxError, match="holds a study with horizon = 64, not 32"):
        tiny_study(study_folder, trials=6, horizon=32)


def test_the_table_says_that_the_interval_is_that_of_the_final_return(tmp_path: Path) -> None:
    attributes = {"returns": [40.0, 60.0], "steps": 200}
    state = SimpleNamespace(name="COMPLETE")
    trial = SimpleNamespace(number=0, params={"clip_range": 0.2}, value=30.0, state=state, user_attrs=attributes)
    study = SimpleNamespace(trials=[trial])
    result = TuningResult(tmp_path, RUN, {"clip_range": Range(0.1, 0.3)}, "area", study)
    table = result.table()
    assert repr(result) == f"TuningResult({str(tmp_path)!r}: 1 trial; best: trial 0 with 30 (clip_range=0.2))"
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["objective"] == ["30"]
    assert " to " in columns["final return"][0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1", "settings.toml: ppo has no setting 'learning_rat'; did you mean learning_rate"),
        ("n_steps = 64", "settings.toml: ppo has no setting 'n_steps'; here it is called horizon$"),
        ("horizon = 0", "settings.toml: horizon must be at least 1, not 0"),
        ("env_id = 3", "settings.toml: env_id must be a string, not 3"),
        ("horizon =", "settings.toml is not a TOML file"),
    ],
)
def test_mistakes_in_a_settings_file_name_the_file_and_the_setting(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(TrustaxError, match=message):
        _default_run(PPO(), ["--settings", str(tmp_path / "settings.toml")])
