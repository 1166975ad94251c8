"""Training: the same seed gives the same run, an interrupted run resumes exactly, and bad input is refused."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
import pytest

import trustax as tx
from trustax.algorithms import ALGORITHMS
from trustax.run import from_json, read_run, to_json
from trustax.runtime.loop import TrainingLoop
from trustax.settings import validated
from trustax.storage import history as checkpoints
from trustax.storage.journal import read_records
from trustax.storage.lease import Lease

SMALL: dict[str, Any] = {"num_envs": 2, "horizon": 64, "total_timesteps": 768, "quiet": True}
NATIVE, ENVPOOL, GYMNASIUM = ENGINES = [f"{engine}:CartPole-v1" for engine in ("native", "envpool", "gymnasium")]
TIMES = {"time/fps", "time/time_elapsed", "time/update_share", "time/environment_share"}


def small(kind: type = tx.PPO, **fields: Any) -> Any:
    """A small algorithm, by default one that compiles quickly; settings that it does not have are left out."""
    known = {field.name for field in dataclasses.fields(kind)}
    usual = {"num_epochs": 2, "num_minibatches": 4, "hidden_sizes": (8,), "eigen_interval": 2}
    return kind(**{name: value for name, value in usual.items() if name in known}, **fields)


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in r.items() if k not in TIMES} for r in records]


def arrays(tree: Any) -> list[np.ndarray]:
    is_key = lambda x: jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in jax.tree.leaves(tree)]


def assert_same_state(one: tx.Result, other: tx.Result) -> None:
    for a, b in zip(arrays(one.state), arrays(other.state), strict=True):
        np.testing.assert_array_equal(a, b)


def save_every_iteration(patch: pytest.MonkeyPatch) -> None:
    """The interval between checkpoints is a time, which a test cannot rely on."""
    patch.setattr("trustax.storage.run_directory.RunDirectory.should_save", lambda *_, **__: True)


class Runs(NamedTuple):
    """Runs of one engine that the tests share."""

    first: tx.Result
    saved: tx.Result
    """the same seed again, in a folder with a checkpoint of every iteration"""
    other: tx.Result
    """the next seed"""
    together: tx.Result
    """both seeds in one run"""

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.saved.run_dir, folder))


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    @cache
    def runs(env: str) -> Runs:
        folder = tmp_path_factory.mktemp("runs") / "run"
        with pytest.MonkeyPatch.context() as patch:
            save_every_iteration(patch)
            saved = tx.train(small(), env, seed=5, run_dir=folder, **SMALL)
        first, other = (tx.train(small(), env, seed=seed, **SMALL) for seed in (5, 6))
        return Runs(first, saved, other, tx.train(small(), env, num_seeds=2, seed=5, **SMALL))

    return runs


@pytest.fixture(scope="module")
def mcpo_run(tmp_path_factory: pytest.TempPathFactory) -> tx.Result:
    """A run of MCPO with two seeds, in a folder, with settings that JSON has no number for."""
    algorithm = small(tx.MCPO, value_clip_range=np.inf, max_gradient_norm=np.inf)
    folder = tmp_path_factory.mktemp("mcpo") / "run"
    return tx.train(algorithm, "CartPole-v1", num_seeds=2, run_dir=folder, **SMALL)


@pytest.mark.parametrize("env", ENGINES)
def test_the_seed_determines_the_records(env: str, runs_of: Callable[[str], Runs]) -> None:
    runs = runs_of(env)
    assert without_times(runs.first.records) == without_times(runs.saved.records)
    assert without_times(runs.first.records) != without_times(runs.other.records)


@pytest.mark.parametrize("env", ENGINES)
def test_seeds_in_parallel_equal_single_seeds(env: str, runs_of: Callable[[str], Runs]) -> None:
    runs = runs_of(env)
    for learner, alone in enumerate((runs.first, runs.other)):
        for mine, ours in zip(alone.records, runs.together.records, strict=True):
            np.testing.assert_allclose(
                mine["train/value_loss"][0], ours["train/value_loss"][learner], rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if n == "mcpo" else [pytest.mark.slow]) for n, k in ALGORITHMS.items()]
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(iteration: tx.Iteration) -> None:
        if iteration.number == 2:
            shutil.copytree(tmp_path / "whole", tmp_path / "half")

    save_every_iteration(monkeypatch)
    settings = SMALL | {"num_seeds": 2, "total_timesteps": 512}
    whole = tx.train(small(kind), "Pendulum-v1", run_dir=tmp_path / "whole", callbacks=[copy], **settings)
    assert len(read_records(tmp_path / "half")) == 2
    halves = tx.train(small(kind), "Pendulum-v1", run_dir=tmp_path / "half", resume=True, **settings)
    assert_same_state(whole, halves)
    assert without_times(read_records(tmp_path / "whole")) == without_times(read_records(tmp_path / "half"))


def interrupted_after(iterations: int, algorithm: Any, env: str, folder: Path | None, settings: dict[str, Any]) -> None:
    """Train, and press Ctrl-C while the journal records that iteration."""
    from trustax.storage.journal import Journal

    plain = Journal.record

    def record(journal: Journal, metrics: Any) -> None:
        plain(journal, metrics)
        if len(journal.records) == iterations:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "record", record)
        tx.train(algorithm, env, run_dir=folder, **settings)


@pytest.mark.parametrize("env", ENGINES[1:])
def test_environments_that_restart_at_intervals_resume_bit_for_bit(
    env: str, tmp_path: Path, runs_of: Callable[[str], Runs]
) -> None:
    settings = SMALL | {"num_seeds": 2, "seed": 5, "restart_interval": 2}
    whole = tx.train(small(), env, run_dir=tmp_path / "whole", **settings)
    with pytest.raises(tx.Interrupted, match="stopped after 384 steps; 256 are saved; resume with"):
        interrupted_after(3, small(), env, tmp_path / "parts", settings)
    if env == GYMNASIUM:
        with pytest.raises(tx.Interrupted, match="stopped after 512 steps and saved; resume with: trustax resume"):
            interrupted_after(4, small(), env, tmp_path / "parts", settings | {"resume": True})
    parts = tx.train(small(), env, run_dir=tmp_path / "parts", resume=True, **settings)
    assert_same_state(whole, parts)
    assert without_times(read_records(tmp_path / "whole")) == without_times(read_records(tmp_path / "parts"))
    # Runs with and without restarts are two programs, whose last bits may differ.
    returns, returns_without_restarts = (
        [record["rollout/ep_rew_mean"] for record in run.records] for run in (whole, runs_of(env).together)
    )
    np.testing.assert_allclose(returns[:2], returns_without_restarts[:2], rtol=1e-6)
    assert not np.allclose(returns[2:], returns_without_restarts[2:], rtol=1e-6)


def test_environments_that_can_be_saved_do_not_restart(runs_of: Callable[[str], Runs]) -> None:
    assert_same_state(runs_of(NATIVE).first, tx.train(small(), NATIVE, seed=5, restart_interval=2, **SMALL))


@pytest.mark.parametrize("env", ENGINES[1:])
def test_a_resumed_run_keeps_the_learner_if_the_environment_cannot_be_saved(
    env: str, tmp_path: Path, runs_of: Callable[[str], Runs]
) -> None:
    before = runs_of(env).saved
    folder = runs_of(env).copy(tmp_path / "run")
    after = tx.train(small(), env, seed=5, run_dir=folder, resume=True, **SMALL | {"total_timesteps": 1024})
    assert [r["time/iterations"] for r in after.records] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert without_times(after.records)[:6] == without_times(before.records)
    assert int(after.state.iteration) == 8


def test_a_finished_run_resumes_to_itself(runs_of: Callable[[str], Runs]) -> None:
    done = runs_of(NATIVE).saved
    assert_same_state(done, tx.train(small(), NATIVE, seed=5, run_dir=done.run_dir, resume=True, **SMALL))


@pytest.fixture(scope="module")
def started_here(tmp_path_factory: pytest.TempPathFactory) -> tx.Result:
    """A resume without a checkpoint, in the current folder, which holds an unfinished file of a killed run."""
    folder = tmp_path_factory.mktemp("here") / "run"
    folder.mkdir()
    (folder / ".run.json.4242").write_text("{")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = tx.train(small(), NATIVE, run_dir=".", resume=True, **SMALL | {"total_timesteps": 300})
    return dataclasses.replace(result, run_dir=folder)


def test_a_resume_without_a_checkpoint_starts_at_step_0(started_here: tx.Result) -> None:
    assert [record["time/iterations"] for record in started_here.records] == [1, 2]


def test_the_run_folder_may_be_the_current_folder(started_here: tx.Result) -> None:
    assert {path.name for path in started_here.run_dir.parent.iterdir()} == {"run"}


def test_an_unfinished_file_of_a_killed_run_does_not_matter(started_here: tx.Result) -> None:
    assert read_run(started_here.run_dir).env_id == NATIVE


def test_a_run_folder_holds_the_documented_files(mcpo_run: tx.Result) -> None:
    files = {"run.json", "metrics.jsonl", "tensorboard", "checkpoints", "curve.png"}
    assert {path.name for path in mcpo_run.run_dir.iterdir()} == files
    line = json.loads((mcpo_run.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["time/total_timesteps"] == 768
    assert len(line["rollout/ep_rew_mean"]) == 2
    assert {"time/fps", "rollout/ep_len_mean", "train/approx_kl", "mcpo/alpha", "mcpo/beta"} <= line.keys()
    assert not any(name.startswith("finite/") for name in line)


def test_total_timesteps_is_rounded_down_to_whole_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    result = tx.train(small(), NATIVE, **SMALL | {"total_timesteps": 300, "quiet": False})
    assert [record["time/total_timesteps"] for record in result.records] == [128, 256]
    assert "total_timesteps 300 is rounded to 256: 2 iterations of 128 steps" in capsys.readouterr().err


def test_infinity_is_saved_and_read(mcpo_run: tx.Result) -> None:
    assert mcpo_run.run.algorithm.max_gradient_norm == np.inf
    assert read_run(mcpo_run.run_dir) == mcpo_run.run
    assert "Infinity" not in (mcpo_run.run_dir / "run.json").read_text()
    assert tx.load(mcpo_run.run_dir).spec.observation_shape == (4,)


def test_a_folder_with_a_run_is_not_overwritten(mcpo_run: tx.Result) -> None:
    settings = SMALL | {"num_seeds": 2, "run_dir": mcpo_run.run_dir}
    with pytest.raises(tx.TrustaxError, match="already holds a run"):
        tx.train(mcpo_run.run.algorithm, "CartPole-v1", **settings)
    changed = dataclasses.replace(mcpo_run.run.algorithm, memory_size=3)
    with pytest.raises(tx.TrustaxError, match="memory_size = 10, not 3"):
        tx.train(changed, "CartPole-v1", resume=True, **settings)
    with pytest.raises(tx.TrustaxError, match="holds a run of mcpo, not of ppo"):
        tx.train(small(tx.PPO), "CartPole-v1", resume=True, **settings)
    with pytest.raises(tx.TrustaxError, match="has already trained for 768 steps, so total_timesteps cannot be 128"):
        tx.train(mcpo_run.run.algorithm, "CartPole-v1", resume=True, **settings | {"total_timesteps": 128})
    assert read_run(mcpo_run.run_dir) == mcpo_run.run


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_seeds": 0}, "num_seeds must be at least 1, not 0"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"restart_interval": -1}, "restart_interval must be at least 0, not -1"),
        ({"num_envs": 1, "horizon": 2}, "num_minibatches is 4, but an iteration has only"),
        (
            {"total_timesteps": 10_000, "horizon": 10**7},
            r"num_envs \* horizon = 2 \* 10,000,000 = 20,000,000 steps; lower",
        ),
        ({"resume": True}, "resume needs run_dir"),
    ],
)
def test_invalid_run_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(tx.TrustaxError, match=message):
        tx.train(small(), "CartPole-v1", **SMALL | settings)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory_size": 0}, "memory_size must be at least 1, not 0"),
        ({"discount": 1.5}, "discount must be between 0 and 1, not 1.5"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be at least 0, not nan"),
        ({"kl_cost_max": -1.0}, "kl_cost_max must be at least 0, not -1.0"),
        ({"trust_region_weight": 5.0}, "trust_region_weight must be between 0 and 1, not 5.0"),
    ],
)
def test_hyperparameters_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(tx.TrustaxError, match=message):
        tx.Run(algorithm=tx.MCPO(**fields), env_id="CartPole-v1")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trust_region_weight": "all"}, "trust_region_weight must be 'adaptive' or a number, not 'all'"),
        ({"write_rule": "intervall"}, "write_rule must be 'diversity' or 'interval', not 'intervall'"),
        ({"kl_cost_rule": "switch"}, "kl_cost_rule must be 'switching' or"),
        ({"num_epochs": 2.5}, "num_epochs must be a whole number, not 2.5"),
        ({"num_epochs": True}, "num_epochs must be a whole number, not True"),
        ({"hidden_sizes": 64}, "hidden_sizes must be a tuple of whole numbers, not 64"),
        ({"learning_rate": "3e-4"}, "learning_rate must be a number or a tuple of numbers, not '3e-4'"),
        ({"decay_learning_rate": 1}, "decay_learning_rate must be True or False, not 1"),
        ({"kl_target_batch_size": 5}, "kl_target_batch_size was 0 or 8192 in earlier versions, not 5"),
    ],
)
def test_hyperparameters_of_a_wrong_type_are_refused(fields: dict[str, Any], message: str) -> None:
    """Read from a file: the tests check the types of all calls, which users do not."""
    with pytest.raises(tx.TrustaxError, match=message):
        from_json({"algorithm": {"name": "mcpo"} | fields, "env_id": "CartPole-v1"})


def test_an_older_file_keeps_its_meaning() -> None:
    """Before `switch_every` existed, β was decided at every minibatch."""
    run = from_json({"algorithm": {"name": "mcpo"}, "env_id": "CartPole-v1"})
    assert run.algorithm.switch_every == "minibatch"
    assert tx.MCPO().switch_every == "auto"
    assert (run.algorithm.kl_target_action_growth, tx.MCPO().kl_target_action_growth) == (0.0, 0.5)
    assert from_json(to_json(tx.Run(algorithm=tx.MCPO(), env_id="CartPole-v1"))).algorithm == tx.MCPO()


@pytest.mark.parametrize(("decays", "schedule"), [(True, "linear"), (False, "constant")])
@pytest.mark.parametrize("method", ["ppo", "acktr"])
def test_an_older_file_defines_the_learning_rate_schedule(method: str, decays: bool, schedule: str) -> None:
    run = from_json({"algorithm": {"name": method, "decay_learning_rate": decays}, "env_id": "CartPole-v1"})
    assert run.algorithm.learning_rate_schedule == schedule
    assert from_json(to_json(run)) == run


@pytest.mark.parametrize(("batch_size", "growth"), [(0, 0.0), (8192, 0.5)])
def test_an_older_file_defines_the_growth_of_the_kl_target(batch_size: int, growth: float) -> None:
    run = from_json({"algorithm": {"name": "mcpo", "kl_target_batch_size": batch_size}, "env_id": "CartPole-v1"})
    assert run.algorithm.kl_target_growth == growth
    assert from_json(to_json(run)) == run


def test_numbers_of_other_types_are_converted() -> None:
    tidy = validated(tx.MCPO, {"hidden_sizes": [64, 64], "num_epochs": np.int64(3), "learning_rate": np.float32(0.5)})
    assert repr(tidy) == "{'hidden_sizes': (64, 64), 'num_epochs': 3, 'learning_rate': 0.5}"
    assert repr(validated(tx.Run, {"total_timesteps": 1e6})) == "{'total_timesteps': 1000000}"


def test_a_run_stops_if_its_folder_moves_or_a_later_attempt_takes_over(tmp_path: Path) -> None:
    def files(folder: Path) -> set[Path]:
        return {path.relative_to(folder) for path in folder.rglob("*")}

    run = tx.Run(algorithm=small(), env_id="CartPole-v1", total_timesteps=512, num_envs=2, horizon=64)
    with TrainingLoop(run, run_dir=tmp_path / "old", checkpoint_seconds=0.0, quiet=True) as loop:
        iterations = iter(loop)
        next(iterations)
        (tmp_path / "old").rename(tmp_path / "new")
        before = files(tmp_path / "new")
        with pytest.raises(tx.TrustaxError, match="old was moved or deleted during training"):
            next(iterations)
    assert not (tmp_path / "old").exists()
    assert files(tmp_path / "new") == before
    assert len(read_records(tmp_path / "new")) == 1
    with TrainingLoop(run, run_dir=tmp_path / "new", resume=True, quiet=True, lease=True) as loop:
        Lease.take(tmp_path / "new").check()
        with pytest.raises(tx.TrustaxError, match="taken over by a later attempt"):
            next(iter(loop))
    assert len(read_records(tmp_path / "new")) == 1
    tx.train(run, run_dir=tmp_path / "new", resume=True, quiet=True)
    assert len(read_records(tmp_path / "new")) == 4


def test_a_damaged_checkpoint_is_reported_and_an_older_one_is_used(
    tmp_path: Path, runs_of: Callable[[str], Runs], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs_of(NATIVE).copy(tmp_path / "run")
    settings = SMALL | {"seed": 5, "resume": True}
    older, newer = sorted((folder / "checkpoints").iterdir())
    os.truncate(newer / "arrays.safetensors", 100)
    capsys.readouterr()
    again = tx.train(small(), NATIVE, run_dir=folder, **settings)
    assert [record["time/iterations"] for record in again.records] == [1, 2, 3, 4, 5, 6]
    printed = capsys.readouterr().err
    assert "100 bytes, but its manifest says" in printed
    assert "using step_000000000640 instead" in printed
    for checkpoint in (older, newer):
        os.truncate(checkpoint / "arrays.safetensors", 100)
    lines = (folder / "metrics.jsonl").read_text()
    for use in (tx.load, lambda path: tx.train(small(), NATIVE, run_dir=path, **settings)):
        with pytest.raises(tx.TrustaxError, match="all checkpoints of this run are damaged"):
            use(folder)
    assert (folder / "metrics.jsonl").read_text() == lines


def interrupted(self: Any, state: Any) -> Any:
    signal.raise_signal(signal.SIGINT)
    return state


def test_ctrl_c_while_compiling_stops_before_the_first_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trustax.runtime.train_step.TrainStep.compile", interrupted)
    with pytest.raises(tx.Interrupted, match="stopped before the first iteration was complete; start again with"):
        tx.train(small(), "CartPole-v1", run_dir=tmp_path / "run", **SMALL)
    assert "press Ctrl-C again to quit now" in capfd.readouterr().err


@pytest.mark.parametrize("env", ["CartPole-v1", GYMNASIUM])
def test_an_interrupted_run_without_a_folder_keeps_its_agents(env: str) -> None:
    with pytest.raises(tx.Interrupted, match="nothing was saved, since there is no run_dir") as stopped:
        interrupted_after(2, small(), env, None, SMALL)
    result = stopped.value.result
    assert result is not None
    assert [record["time/total_timesteps"] for record in result.records] == [128, 256]
    assert result.agent().predict(np.zeros(4, np.float32))[0] in (0, 1)
    assert "sys.last_value.result" in stopped.value.__notes__[0]


def test_a_callback_that_stops_a_run_between_restarts_saves_it(tmp_path: Path) -> None:
    settings = SMALL | {"restart_interval": 4}
    tx.train(small(), GYMNASIUM, run_dir=tmp_path / "run", callbacks=lambda one: one.number == 3, **settings)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step_000000000384"]
    resumed = tx.train(small(), GYMNASIUM, run_dir=tmp_path / "run", resume=True, **settings)
    assert len(resumed.records) == 6


def test_a_callback_may_change_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(iteration: tx.Iteration) -> None:
        if iteration.number == 4:
            os.chdir(tmp_path / "elsewhere")

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    result = tx.train(small(), NATIVE, run_dir="run", callbacks=leave, checkpoint_seconds=0.0, **SMALL)
    assert Path.cwd() == tmp_path / "elsewhere"
    assert [record["time/iterations"] for record in result.records] == [1, 2, 3, 4, 5, 6]
    assert checkpoints.newest_valid(tmp_path / "run") == checkpoints.checkpoint_path(tmp_path / "run", 768)
    assert (tmp_path / "run" / "tensorboard").is_dir()
    assert result.run_dir == tmp_path / "run"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("is_url", [False, True])
def test_iterations_that_the_program_keeps_are_saved_at_its_end(is_url: bool, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/run" if is_url else str(tmp_path / "run")
    code = (
        "import trustax as tx\n"
        "run = tx.Run(algorithm=tx.PPO(num_minibatches=4), env_id='CartPole-v1', num_envs=2, horizon=64)\n"
        f"kept = tx.iterations(run, run_dir={place!r})\n"
        "print([next(kept).number for _ in range(2)])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[1, 2]\n", "")
    folder = tmp_path / "run" / "attempt.1" if is_url else tmp_path / "run"
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step_000000000256"]


def test_a_run_of_an_object_resumes_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trustax.runtime.train_step.TrainStep.compile", interrupted)

    def lift() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1")

    with pytest.raises(tx.Interrupted, match=r"start again with: trustax.train\(\.\.\., run_dir="):
        tx.train(small(), lift, run_dir=tmp_path / "run", **SMALL)


def test_a_folder_that_is_not_a_run_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(tx.TrustaxError, match="exists and is not a run folder"):
        tx.train(small(), "CartPole-v1", run_dir=tmp_path, **SMALL)


def test_an_error_names_a_folder_deleted_during_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(tx.TrustaxError, match="run was moved or deleted during training"):
        tx.train(small(), "CartPole-v1", run_dir=folder, callbacks=[lambda _: shutil.rmtree(folder, True)], **SMALL)
    assert not folder.exists()


class Broken(gymnasium.Env[np.ndarray, int]):
    """Returns a value that is not finite in its fifth step; its spaces are those of CartPole, for the same programs."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, observation: float, reward: float) -> None:
        self.bad, self.steps = (observation, reward), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        observation, reward = self.bad if self.steps == 5 else (0.0, 1.0)
        return np.full(4, observation, np.float32), reward, False, False, {}


class Succeeding(Broken):
    """Episodes of 150 steps, whose last info alone has success."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, *_ = super().step(action)
        is_over = self.steps == 150
        return observation, reward, is_over, False, {"is_success": True} if is_over else {}


def test_a_resumed_run_reports_success_in_the_iterations_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """Of 4 iterations between restarts, which have 256 steps, the third alone has the end of an episode."""

    def succeeding() -> gymnasium.Env:
        return Succeeding(0.0, 1.0)

    settings = SMALL | {"restart_interval": 4}
    whole = tx.train(small(), succeeding, **settings)
    with pytest.raises(tx.Interrupted, match="stopped after 640 steps; 512 are saved"):
        interrupted_after(5, small(), succeeding, tmp_path / "parts", settings)
    parts = tx.train(small(), succeeding, run_dir=tmp_path / "parts", resume=True, **settings)
    assert [record.get("rollout/success_rate") for record in whole.records] == [None, None, *[[1.0]] * 4]
    assert without_times(parts.records) == without_times(whole.records)


class Terminating(Broken):
    """Gets SIGTERM in the middle of the second rollout."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.steps == 99:
            os.kill(os.getpid(), signal.SIGTERM)
        assert self.steps < 101
        return super().step(action)


def test_a_signal_stops_a_rollout_and_keeps_the_last_iteration(tmp_path: Path) -> None:
    def terminating() -> gymnasium.Env:
        return Terminating(0.0, 1.0)

    with pytest.raises(tx.Interrupted, match="stopped after 64 steps and saved"):
        tx.train(small(), terminating, run_dir=tmp_path / "run", **SMALL | {"num_envs": 1})
    assert [record["time/iterations"] for record in read_records(tmp_path / "run")] == [1]
    assert checkpoints.step_of(checkpoints.newest_valid(tmp_path / "run")) == 64


class Raising(Broken):
    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("the arm\nis stuck")


def test_an_environment_error_is_reported_in_one_line() -> None:
    with pytest.raises(tx.TrustaxError, match=r"raised RuntimeError: the arm is stuck \(test_training.py, line \d+\);"):
        tx.train(small(), lambda: Raising(0.0, 1.0), **SMALL)


def test_a_new_algorithm_needs_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(tx.PPO):  # type: ignore[misc]
        pass

    with pytest.raises(tx.TrustaxError, match="Mine has no name yet; give it one"):
        tx.train(small(Mine), "CartPole-v1", **SMALL)
    monkeypatch.setitem(ALGORITHMS, "mine", Mine)
    assert len(tx.train(small(Mine), NATIVE, **SMALL).records) == 6


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("observation", (np.nan, 1.0), "nan, which is not finite"),
        ("reward", (0.0, 1e30), "1e\\+30, which is too large"),
    ],
)
def test_an_error_names_an_environment_that_returns_unusable_numbers(
    name: str, values: tuple[float, float], wrong: str
) -> None:
    with pytest.raises(tx.TrustaxError, match=f"environment 0, step 5: {name}.* is {wrong}"):
        tx.train(small(), lambda: Broken(*values), **SMALL)


def test_an_error_after_a_resume_counts_the_steps_from_the_start_of_the_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"run_dir": tmp_path / "run", "quiet": True}
    run = tx.Run(algorithm=small(), env_id="gymnasium:CartPole-v1", num_envs=2, horizon=32, total_timesteps=2 * 64)
    tx.train(run, callbacks=lambda iteration: True, **options)
    for env, place in (
        (lambda: Broken(np.nan, 1.0), "environment 0, step 37: observation"),
        (lambda: Raising(0.0, 1.0), "environment 0, step 1 after the restart at iteration 1: step"),
    ):
        with pytest.raises(tx.TrustaxError, match=place):
            tx.train(run, env, resume=True, **options)


def test_sigterm_saves_prints_how_to_resume_and_exits_with_75(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trustax.cli.main", "train", "ppo", "--env-id", "CartPole-v1"]
    command += ["--total-timesteps", "1000000000", "--run-dir", str(tmp_path / "run"), "--horizon", "64"]
    command += ["--num-epochs", "2", "--num-minibatches", "4", "--hidden-sizes", "8"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 75, printed
    assert printed.splitlines()[-1].endswith(f"resume with: trustax resume {tmp_path / 'run'}")
    assert checkpoints.newest_valid(tmp_path / "run") is not None
