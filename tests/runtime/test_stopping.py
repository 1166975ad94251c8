"""Signals during callbacks and evaluations, and what a resumed run continues."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import pytest

import trustax as tx
from tests.runtime.test_callbacks import RUN, Recorder
from trustax.ops.metrics import ELAPSED, STEP
from trustax.runtime.callbacks import Callbacks
from trustax.runtime.episodes import EpisodeWindow, FinishedEpisodes

SMALL = replace(RUN, num_seeds=1, total_timesteps=3 * 64)


def stop_at(number: int) -> Callable[[tx.Iteration], None]:
    def callback(iteration: tx.Iteration) -> None:
        if iteration.number == number:
            signal.raise_signal(signal.SIGTERM)

    return callback


def test_callbacks_see_the_checkpoint_that_a_signal_writes(tmp_path: Path) -> None:
    recorder = Recorder()
    with pytest.raises(tx.Interrupted, match=r"stopped after 128 steps and saved"):
        tx.train(SMALL, run_dir=tmp_path, checkpoint_seconds=1e6, quiet=True, callbacks=[recorder, stop_at(2)])
    assert recorder.calls[-1][:2] == ("checkpoint", 2)
    assert [call[0] for call in recorder.calls].count("checkpoint") == 1


class Stopping(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Sends a signal in its third step."""

    steps = 0

    def step(self, action: Any) -> Any:
        Stopping.steps += 1
        if Stopping.steps == 3:
            signal.raise_signal(signal.SIGTERM)
        return super().step(action)


def test_a_signal_ends_an_evaluation_which_is_repeated_after_the_resume(tmp_path: Path) -> None:
    Stopping.steps = 0
    evaluate = tx.Evaluate(interval=1, episodes=100, env=lambda: Stopping(gymnasium.make("CartPole-v1")))
    with pytest.raises(tx.Interrupted, match=r"stopped after 64 steps and saved"):
        tx.train(SMALL, run_dir=tmp_path, quiet=True, callbacks=evaluate)
    assert evaluate.evaluations == []
    assert Stopping.steps < 100, "100 episodes have more steps"
    tx.train(SMALL, run_dir=tmp_path, resume=True, quiet=True, callbacks=evaluate)
    assert [one[STEP] for one in evaluate.evaluations] == [64, 128, 192]


def test_one_evaluation_callback_for_a_run() -> None:
    with pytest.raises(tx.TrustaxError, match=r"a run can have one Evaluate callback, not 2: they share files"):
        Callbacks([tx.Evaluate(), tx.Evaluate(env="CartPole-v1")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callbacks": tx.Evaluate(env="NoSuch-v0")}, "NoSuch-v0"),
        ({"callbacks": tx.KeepAgents()}, "KeepAgents needs a run_dir"),
    ],
)
def test_a_mistake_is_refused_before_the_first_iteration(options: dict[str, Any], message: str) -> None:
    seen: list[int] = []
    callbacks = [options.pop("callbacks", None), lambda iteration: seen.append(iteration.number)]
    with pytest.raises(tx.TrustaxError, match=message):
        tx.train(SMALL, quiet=True, callbacks=[one for one in callbacks if one is not None], **options)
    assert seen == []


def test_a_new_folder_refuses_too_few_steps_also_with_resume(tmp_path: Path) -> None:
    with pytest.raises(tx.TrustaxError, match=r"total_timesteps is 10, but one iteration has"):
        tx.train(replace(SMALL, total_timesteps=10), run_dir=tmp_path / "new", resume=True, quiet=True)
    assert not (tmp_path / "new").exists()


def test_a_run_of_too_many_iterations_is_refused() -> None:
    with pytest.raises(tx.TrustaxError, match=r"fewer than 2\*\*31 iterations: lower total_timesteps"):
        replace(SMALL, total_timesteps=10**12)


def test_the_elapsed_time_continues_after_a_resume(tmp_path: Path) -> None:
    with pytest.raises(tx.Interrupted):
        tx.train(SMALL, run_dir=tmp_path, quiet=True, callbacks=[stop_at(2)])
    metrics = tmp_path / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    last = lines[-1].replace(f'"{ELAPSED}": ', f'"{ELAPSED}": 1000')
    metrics.write_text("\n".join([*lines[:-1], last]) + "\n")
    result = tx.train(SMALL, run_dir=tmp_path, resume=True, quiet=True)
    assert result.records[-1][ELAPSED] > 1000


def test_an_iteration_of_the_past_has_no_agents() -> None:
    first, *_ = list(tx.iterations(SMALL))
    with pytest.raises(tx.TrustaxError, match=r"iteration 1 has no agents any more.*before the next iteration"):
        first.agent()


def test_a_run_whose_curve_cannot_be_drawn_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no fonts\nat all")

    monkeypatch.setattr(tx.Result, "plot", fail)
    recorder = Recorder()
    result = tx.train(SMALL, run_dir=tmp_path, quiet=True, callbacks=recorder)
    assert result.records[-1][STEP] == 192
    assert recorder.calls[-1][0] == "end"
    assert capsys.readouterr().err.endswith("warning: no curve.png: no fonts at all\n")


def test_a_folder_without_an_iteration_is_used_again(tmp_path: Path) -> None:
    def fail(iteration: tx.Iteration) -> None:
        raise ValueError("my bug")

    class Failing:
        def on_start(self, *_: Any) -> None:
            raise ValueError("my bug")

    with pytest.raises(ValueError, match="my bug"):
        tx.train(SMALL, run_dir=tmp_path, quiet=True, callbacks=Failing())
    for resume in (False, True):
        other = replace(SMALL, horizon=16, total_timesteps=64, seed=int(resume))
        with pytest.raises(ValueError, match="my bug"):
            tx.train(other, run_dir=tmp_path, resume=resume, quiet=True, callbacks=Failing())
    with pytest.raises(ValueError, match="my bug"):
        tx.train(other, run_dir=tmp_path, quiet=True, callbacks=fail)
    with pytest.raises(tx.TrustaxError, match="already holds a run"):
        tx.train(other, run_dir=tmp_path, quiet=True)


def test_a_resume_without_its_evaluations_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(tx.Interrupted):
        tx.train(SMALL, run_dir=tmp_path, quiet=True, callbacks=[tx.Evaluate(interval=1, episodes=1), stop_at(1)])
    capsys.readouterr()
    tx.train(SMALL, run_dir=tmp_path, resume=True)
    assert "evaluated before, but not in this resume; callbacks must be given again" in capsys.readouterr().err


def test_iterations_needs_a_run() -> None:
    with pytest.raises(tx.TrustaxError, match=r"iterations takes a Run, such as Run\(algorithm=PPO\(\).*, not a PPO"):
        tx.iterations(tx.PPO())  # type: ignore[arg-type]


def test_the_number_of_episodes_has_32_bits_also_where_jax_has_64() -> None:
    with jax.enable_x64(True):
        ended = jnp.ones((3, 2), bool)
        window = EpisodeWindow.init().add(FinishedEpisodes(ended, jnp.ones((3, 2)), jnp.ones((3, 2), jnp.int32)))
    assert window.count.dtype == jnp.int32
    assert int(window.count) == 6


@pytest.mark.parametrize("number", [0, "many", 2.5])
def test_an_evaluation_needs_a_whole_number_of_episodes(number: Any) -> None:
    agent = next(iter(tx.iterations(SMALL))).agent()
    with pytest.raises(tx.TrustaxError, match=r"num_episodes must be "):
        tx.evaluate(agent, num_episodes=number)
