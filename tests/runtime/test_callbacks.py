"""Callbacks see every iteration, may stop a run, and never change its numbers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import trustax as tx
from tests.storage.test_loggers import curve
from trustax.ops.metrics import RETURN, STEP
from trustax.runtime.callbacks import Callbacks, callback_from_text, register_callback
from trustax.runtime.train_step import TrainStep

RUN = tx.Run(
    algorithm=tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(4,)),
    env_id="CartPole-v1",
    total_timesteps=4 * 64,
    num_envs=2,
    horizon=32,
    num_seeds=2,
)


def parameters(result: tx.Result) -> np.ndarray:
    return np.asarray(result.state.learner.policy.parameters)


def numbers(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what a clock says."""
    return {name: value for name, value in record.items() if not name.startswith("time/")}


@pytest.fixture(scope="module")
def plain() -> tx.Result:
    return tx.train(RUN, quiet=True)


class Recorder:
    """Counts what it is called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_start(self, run: tx.Run, run_dir: Path | None, timesteps: int) -> None:
        self.calls.append(("start", timesteps))

    def on_resume(self, iteration: tx.Iteration) -> None:
        assert iteration.checkpoint is not None
        assert iteration.record[STEP] == iteration.timesteps
        self.calls.append(("resume", iteration.number, iteration.timesteps))

    def on_iteration(self, iteration: tx.Iteration) -> None:
        self.calls.append(("iteration", iteration.number, iteration.timesteps))

    def on_checkpoint(self, iteration: tx.Iteration) -> None:
        assert iteration.checkpoint is not None
        assert iteration.checkpoint.exists()
        self.calls.append(("checkpoint", iteration.number))

    def on_stop(self, iteration: tx.Iteration) -> None:
        self.calls.append(("stop", iteration.number))

    def on_end(self, result: tx.Result) -> None:
        self.calls.append(("end", len(result.records)))


def test_callbacks_are_called_in_order_and_change_no_number(plain: tx.Result, tmp_path: Path) -> None:
    def log(iteration: tx.Iteration) -> None:
        iteration.log({"mine/number": iteration.number, "mine/seeds": np.array([0.0, iteration.number])})

    recorder, seen = Recorder(), []
    callbacks = [recorder, seen.append, tx.Evaluate(interval=2, episodes=2), tx.KeepAgents(every=128), log]
    result = tx.train(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True, callbacks=callbacks)
    assert recorder.calls == [
        ("start", 0),
        ("iteration", 1, 64),
        ("iteration", 2, 128),
        ("iteration", 3, 192),
        ("checkpoint", 4),
        ("iteration", 4, 256),
        ("end", 4),
    ]
    assert [iteration.number for iteration in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal(parameters(result), parameters(plain))
    assert [numbers(record) for record in result.records] == [numbers(record) for record in plain.records]
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    evaluations = [json.loads(line) for line in lines]
    assert evaluations == callbacks[2].evaluations == tx.read_records(tmp_path / "run").evaluations
    assert [one[STEP] for one in evaluations] == [128, 256]
    assert len(evaluations[0]["eval/mean_reward"]) == 2
    assert callbacks[2].best == max(max(one["eval/mean_reward"]) for one in evaluations)
    result.plot(tmp_path / "evaluations.svg", metric="eval/mean_reward")
    assert "episode return in evaluations" in (tmp_path / "evaluations.svg").read_text()
    with pytest.raises(
        tx.TrustaxError, match=r"no run folder has eval/mean_reward; train .* tx.Evaluate\(\) and a run_dir"
    ):
        plain.plot(tmp_path / "none.svg", metric="eval/mean_reward")
    folder = tmp_path / "run" / "tensorboard"
    assert curve(folder, "mine/number") == [(64, 1.0), (128, 2.0), (192, 3.0), (256, 4.0)]
    assert curve(folder, "mine/seeds_std") == [(64, 0.5), (128, 1.0), (192, 1.5), (256, 2.0)]
    for learner in range(2):
        returns = [(one[STEP], one["eval/mean_reward"][learner]) for one in evaluations]
        assert curve(folder / f"seed_{learner}", "eval/mean_reward") == returns
        assert curve(folder / f"seed_{learner}", "eval/mean_ep_length") == returns  # CartPole pays 1 a step
    assert tx.load(tmp_path / "run" / "best.agent").spec == tx.load(tmp_path / "run").spec
    kept = sorted(path.relative_to(tmp_path / "run" / "agents") for path in (tmp_path / "run").glob("agents/*/*"))
    assert [str(path) for path in kept[:2]] == ["step_000000000128/seed_0.agent", "step_000000000128/seed_1.agent"]
    assert len(kept) == 4


def test_only_numbers_can_be_logged(plain: tx.Result) -> None:
    logged: list[Any] = []
    iteration = tx.Iteration(RUN, 1, [{STEP: 64, RETURN: [1.0, 2.0]}], plain.state, log_record=logged.append)
    iteration.log({"a": np.float32(1), "b": (1, float("nan")), "c": None, "d": jax.numpy.ones(2)})
    assert logged == [{STEP: 64, "a": 1.0, "b": [1.0, None], "c": None, "d": [1.0, 1.0]}]
    for value in ("3", ["3", "4"], {1.0}, [[1.0], [2.0]], [1.0, [2.0]], 10**400):
        with pytest.raises(tx.TrustaxError, match=r"^mine cannot be logged: expected a number or a list with .*$"):
            iteration.log({"mine": value})
    with pytest.raises(tx.TrustaxError, match="mine cannot be logged: expected one number for each of the 2 learners"):
        iteration.log({"mine": [1.0, 2.0, 3.0]})
    with pytest.raises(tx.TrustaxError, match="the name must be a string that no metric of the run has"):
        iteration.log({RETURN: 1.0})
    assert len(logged) == 1


def test_a_run_stopped_by_a_callback_is_saved_and_resumes_bit_for_bit(plain: tx.Result, tmp_path: Path) -> None:
    stopped = tx.train(
        RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True, callbacks=lambda i: i.number == 2
    )
    assert [record[STEP] for record in stopped.records] == [64, 128]
    assert "2 seeds, 128 steps" in repr(stopped)
    evaluate = tx.Evaluate(interval=1, episodes=1)
    result = tx.train(RUN, run_dir=tmp_path / "run", resume=True, quiet=True, callbacks=[evaluate])
    np.testing.assert_array_equal(parameters(result), parameters(plain))
    assert [one[STEP] for one in evaluate.evaluations] == [128, 192, 256]


class Killed(BaseException):
    """Stands for a kill: no code that handles errors handles it."""


def evaluated(run: tx.Run, folder: Path, first: Any = lambda iteration: None) -> None:
    callbacks = [first, tx.Evaluate(interval=2, episodes=2), tx.KeepAgents(every=run.batch_size)]
    tx.train(run, run_dir=folder, resume=True, checkpoint_seconds=0.0, quiet=True, callbacks=callbacks)


def kept_files(folder: Path) -> dict[str, bytes]:
    """What callbacks have written, without the manifests of agents, which have a time."""
    files = [folder / "evaluations.jsonl", *folder.glob("best.agent/arrays*"), *folder.glob("agents/*/*/arrays*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("engine", ["native", "gymnasium"])
def test_a_run_killed_before_its_callbacks_keeps_what_an_uninterrupted_run_keeps(engine: str, tmp_path: Path) -> None:
    """An iteration is saved before its callbacks are called, also the last one."""
    run = replace(RUN, env_id=f"{engine}:CartPole-v1", restart_interval=2, normalize_observations=True)

    def kill(iteration: tx.Iteration) -> None:
        if iteration.number in (2, 4):
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            evaluated(run, tmp_path / "killed", kill)
    recorder = Recorder()
    evaluated(run, tmp_path / "killed", recorder)
    assert recorder.calls == [("start", 256), ("resume", 4, 256), ("end", 4)]
    evaluated(run, tmp_path / "whole")
    whole = kept_files(tmp_path / "whole")
    assert len(whole) == 2 + 4 * 2
    assert kept_files(tmp_path / "killed") == whole


def test_a_run_killed_while_it_saves_the_best_agent_saves_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = tx.Agent.save

    def kill(agent: tx.Agent, path: Path, *options: Any) -> None:
        if path.name == "best.agent":
            raise Killed
        save(agent, path, *options)

    monkeypatch.setattr(tx.Agent, "save", kill)
    with pytest.raises(Killed):
        evaluated(RUN, tmp_path / "killed", lambda iteration: None)
    monkeypatch.undo()
    evaluated(RUN, tmp_path / "killed")
    evaluated(RUN, tmp_path / "whole")
    assert kept_files(tmp_path / "killed") == kept_files(tmp_path / "whole")


def test_a_full_disk_is_named_by_an_evaluation(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no full device")

    def fill(iteration: tx.Iteration) -> None:
        if iteration.number == 1:
            (tmp_path / "evaluations.jsonl").symlink_to(full)

    with pytest.raises(tx.TrustaxError, match=r"^could not write to .*evaluations\.jsonl: No space left on device$"):
        evaluated(RUN, tmp_path, fill)


def test_evaluations_of_an_earlier_version_are_continued(tmp_path: Path) -> None:
    evaluate = tx.Evaluate(interval=2, episodes=1)
    callbacks = [evaluate, lambda iteration: iteration.number == 2]
    tx.train(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True, callbacks=callbacks)
    lines = '{"step": 128, "returns": [9.0, 600.0]}\n{"step": 192, "returns": [8.0, 8.0]}\n'
    (tmp_path / "run" / "evaluations.jsonl").write_text(lines)
    assert tx.read_records(tmp_path / "run").evaluations[0] == {STEP: 128, "eval/mean_reward": [9.0, 600.0]}
    tx.train(RUN, run_dir=tmp_path / "run", resume=True, quiet=True, callbacks=[evaluate])
    assert [one[STEP] for one in evaluate.evaluations] == [128, 256]
    assert evaluate.evaluations == tx.read_records(tmp_path / "run").evaluations
    assert evaluate.best == 600


@pytest.mark.parametrize("stop", [np.bool_(True), jax.numpy.array(True)])
def test_a_callback_may_stop_with_a_boolean_of_numpy_or_jax(stop: Any, plain: tx.Result) -> None:
    iteration = tx.Iteration(RUN, 1, plain.records, plain.state)
    assert Callbacks([lambda iteration: stop]).iteration(iteration)
    for answer in (np.bool_(False), np.ones(1, bool), 1, 1.0, "yes", None):
        assert not Callbacks([lambda iteration, answer=answer: answer]).iteration(iteration)


def test_an_iteration_keeps_its_own_record() -> None:
    assert [one.timesteps for one in list(tx.iterations(RUN))] == [64, 128, 192, 256]


def test_an_interrupt_in_a_step_is_reported_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step reuses the buffers of the last state, which can then not be saved again."""
    learn = TrainStep.__call__

    def interrupted(step: TrainStep, state: Any, num_iterations: int) -> Any:
        result = learn(step, state, num_iterations)
        if int(result.state.iteration) == 3:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(TrainStep, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tx.train(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True)
    monkeypatch.undo()
    result = tx.train(RUN, run_dir=tmp_path / "run", resume=True, quiet=True)
    assert [record[STEP] for record in result.records] == [64, 128, 192, 256]


def test_an_evaluation_starts_anew_with_every_run() -> None:
    evaluate = tx.Evaluate(interval=4, episodes=1)
    for _ in range(2):
        tx.train(RUN, quiet=True, callbacks=[evaluate])
        assert [one[STEP] for one in evaluate.evaluations] == [256]


def test_an_evaluation_without_an_environment_is_refused_before_the_run() -> None:
    message = r"that of the run, <lambda>, was not given by its id; pass the same environment as Evaluate\(env=...\)$"
    with pytest.raises(tx.TrustaxError, match=message):
        tx.Evaluate().on_start(replace(RUN, env_id="<lambda>"), None, 0)


def test_a_run_refuses_another_environment() -> None:
    with pytest.raises(
        tx.TrustaxError, match=r"the Run trains on CartPole-v1, not on Pendulum-v1; dataclasses.replace"
    ):
        tx.train(RUN, "Pendulum-v1", quiet=True)


def test_iterations_equal_those_of_train_and_breaking_out_saves(plain: tx.Result, tmp_path: Path) -> None:
    for iteration in tx.iterations(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6):
        agent = iteration.agent(learner=1)
        if iteration.number == 3:
            break
    assert agent.predict(np.zeros(4))[0] in (0, 1)
    *_, last = tx.iterations(RUN, run_dir=tmp_path / "run", resume=True)
    assert last.is_last
    np.testing.assert_array_equal(np.asarray(last.state.learner.policy.parameters), parameters(plain))


def test_traced_metrics_are_returned_for_every_update() -> None:
    name = "train/loss"
    for iteration in tx.iterations(RUN, traced=[name]):
        assert iteration.series[name].shape == (2, 2)
        np.testing.assert_allclose(iteration.series[name].mean(axis=1), iteration.record[name], rtol=1e-5)
        assert iteration.old_policy.parameters.shape == iteration.state.learner.policy.parameters.shape
    with pytest.raises(tx.TrustaxError, match=r"^there is no metric 'train/los' to trace; did you mean train/loss"):
        next(tx.iterations(RUN, traced=["train/los"]))
    with pytest.raises(tx.TrustaxError, match=r"^traced must be a list of names of metrics, such as \['train/loss'\]"):
        tx.iterations(RUN, traced="train/loss")


def test_a_run_stops_at_a_return_or_without_progress(plain: tx.Result) -> None:
    def fake(returns: list[float | None]) -> tx.Iteration:
        """An iteration after which the records hold these mean returns."""
        return tx.Iteration(RUN, len(returns), [{RETURN: [value, value]} for value in returns], plain.state)

    assert tx.StopAtReturn(value=10).on_iteration(fake([1.0, 10.0]))
    assert not tx.StopAtReturn(value=10).on_iteration(fake([10.0, 9.0]))
    assert not tx.StopAtReturn(value=10).on_iteration(fake([None]))
    assert tx.StopWithoutProgress(patience=2).on_iteration(fake([1.0, 5.0, 4.0, 5.0]))
    assert not tx.StopWithoutProgress(patience=2).on_iteration(fake([1.0, 5.0, 4.0, 5.1]))
    assert tx.StopWithoutProgress(patience=1, min_delta=1).on_iteration(fake([1.0, 1.5]))
    assert not tx.StopWithoutProgress(patience=2).on_iteration(fake([None, None, None]))  # no episode has ended


def test_one_learner_does_not_stop_a_run_before_the_others_have_ended_an_episode(plain: tx.Result) -> None:
    def fake(*returns: list[float | None]) -> tx.Iteration:
        return tx.Iteration(RUN, len(returns), [{RETURN: list(values)} for values in returns], plain.state)

    assert not tx.StopAtReturn(value=0.9).on_iteration(fake([0.95, None]))
    assert tx.StopAtReturn(value=0.9).on_iteration(fake([0.95, 0.9]))
    assert not tx.StopWithoutProgress(patience=1).on_iteration(fake([0.95, None], [0.9, 0.1], [0.9, 0.2]))


def test_the_agents_with_which_a_callback_stops_a_run_are_evaluated_and_saved(tmp_path: Path) -> None:
    recorder, evaluate = Recorder(), tx.Evaluate(interval=2, episodes=1)
    folder = tmp_path / "run"
    callbacks = [recorder, evaluate, lambda iteration: iteration.number == 3]
    tx.train(RUN, run_dir=folder, checkpoint_seconds=1e6, quiet=True, callbacks=callbacks)
    assert recorder.calls[-4:] == [("iteration", 3, 192), ("checkpoint", 3), ("stop", 3), ("end", 3)]
    assert [one[STEP] for one in evaluate.evaluations] == [128, 192]
    resumed = Recorder()
    tx.train(RUN, run_dir=folder, resume=True, quiet=True, callbacks=resumed)
    assert [call[0] for call in resumed.calls] == ["start", "resume", "checkpoint", "iteration", "end"]


def test_stopping_without_progress_uses_every_record_once(plain: tx.Result) -> None:
    """One iteration after another it decides as from all records at once, which is how a resumed run begins."""
    returns = [1.0, 5.0, 4.0, 5.0, 6.0, 2.0, 6.0]

    def records(count: int) -> tx.Iteration:
        return tx.Iteration(RUN, count, [{RETURN: [value]} for value in returns[:count]], plain.state)

    callback = tx.StopWithoutProgress(patience=2)
    decisions = [callback.on_iteration(records(count)) for count in range(1, 8)]
    assert decisions == [False, False, False, True, False, False, True]
    for count, expected in enumerate(decisions, start=1):
        callback.on_start(RUN, None, 0)
        assert callback.on_iteration(records(count)) == expected


def test_callbacks_have_names_on_the_command_line() -> None:
    assert callback_from_text("evaluate:interval=5,episodes=3") == tx.Evaluate(interval=5, episodes=3)
    assert callback_from_text("stop-at-return:value=475").value == 475
    for wrong, ours in ({"n_eval_episodes": 3}, "episodes"), ({"eval_freq": 3}, "interval"):
        with pytest.raises(tx.TrustaxError, match=rf"here it is called {ours}$"):
            tx.Evaluate(**wrong)
    with pytest.raises(tx.TrustaxError, match=r"here it is called value$"):
        tx.StopAtReturn(reward_threshold=475)  # type: ignore[call-arg]
    with pytest.raises(
        tx.TrustaxError, match="iterations has no argument 'n_steps'; here it is called horizon, a setting"
    ):
        tx.iterations(RUN, n_steps=3)
    with pytest.raises(tx.TrustaxError, match="there is no callback 'evalute'; did you mean evaluate"):
        callback_from_text("evalute")
    with pytest.raises(tx.TrustaxError, match="callback evaluate has no setting 'episode'; did you mean episodes"):
        callback_from_text("evaluate:episode=3")
    with pytest.raises(tx.TrustaxError, match="interval of callback evaluate needs a value; write evaluate:interval="):
        callback_from_text("evaluate:interval")
    with pytest.raises(tx.TrustaxError, match="function of callback progress must be a function, not a text; set it"):
        callback_from_text("progress:function=foo")
    with pytest.raises(tx.TrustaxError, match="interval must be at least 1, not 0"):
        callback_from_text("evaluate:interval=0")
    with pytest.raises(tx.TrustaxError, match="the callback 'recorder' must be a dataclass, whose fields are its"):
        register_callback("recorder", Recorder)
    with pytest.raises(
        tx.TrustaxError, match="a callback must be a function of an iteration or have one of the methods"
    ):
        Callbacks([3])
    with pytest.raises(tx.TrustaxError, match=r"a callback must be an object, not a class: StopAtReturn\(...\)"):
        Callbacks([tx.StopAtReturn])
    with pytest.raises(tx.TrustaxError, match=r"keyword arguments only, such as StopAtReturn\(value=475\)"):
        tx.StopAtReturn(475)
    assert len(tx.train(RUN, quiet=True, callbacks="stop-at-return:value=0").records) < 4


def test_an_error_of_a_callback_loses_nothing(tmp_path: Path) -> None:
    def fail(iteration: tx.Iteration) -> None:
        if iteration.number == 2:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        tx.train(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True, callbacks=[fail])
    result = tx.train(RUN, run_dir=tmp_path / "run", resume=True, quiet=True)
    assert [record[STEP] for record in result.records] == [64, 128, 192, 256]


def test_train_suggests_its_names_for_those_of_other_libraries(plain: tx.Result) -> None:
    with pytest.raises(tx.TrustaxError, match="train has no argument 'n_steps'; here it is called horizon"):
        tx.train(tx.PPO(), "CartPole-v1", n_steps=64)
    with pytest.raises(tx.TrustaxError, match="train has no argument 'num_seed'; did you mean num_seeds"):
        tx.train(tx.PPO(), "CartPole-v1", num_seed=2)
    with pytest.raises(tx.TrustaxError, match="num_seeds is a setting of the Run"):
        tx.train(RUN, num_seeds=3)
    with pytest.raises(tx.TrustaxError, match="train needs an environment"):
        tx.train(tx.PPO())


def test_a_result_converts_to_a_tidy_table(plain: tx.Result) -> None:
    table = plain.to_pandas()
    assert list(table.columns[:3]) == ["step", "learner", "seed"]
    assert len(table) == 8
    assert table["step"].tolist() == [64, 64, 128, 128, 192, 192, 256, 256]
    np.testing.assert_allclose(table["train/loss"][1], plain.records[0]["train/loss"][1])
    assert jax.tree.leaves(replace(plain.run).seed) == [0]
