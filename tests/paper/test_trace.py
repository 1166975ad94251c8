"""Tracing does not change a run, and the trace records its updates correctly."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from trustax.algorithms import MCPO
from trustax.errors import TrustaxError
from trustax.paper.methods import method
from trustax.paper.tasks import TASKS, Task
from trustax.paper.trace.trace import (
    EPISODES,
    EXACT_UPDATES,
    WINDOW,
    Trace,
    exact_iterations,
    read_trace,
    read_traces,
    write_trace,
)
from trustax.paper.trace.updates import SERIES, TracedIteration, play_episodes, traced_iterations, updates_per_iteration
from trustax.run import Run
from trustax.runtime.result import Result
from trustax.training import train

TINY = Task(
    env_id="CartPole-v1",
    total_timesteps=6 * 64,
    num_envs=2,
    horizon=32,
    num_epochs=3,
    num_minibatches=4,
    learning_rate=0.01,
)
UPDATES = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A results folder with one trace of a tiny task."""
    results = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "tiny", TINY)
        write_trace(results, "tiny", "MCPO N=5", "paper", seed=3, num_seeds=2, quiet=True)
        yield results


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    (found,) = read_traces(folder, "paper")
    return found


class TracedRun(NamedTuple):
    """A run of two seeds, trained with and without tracing."""

    run: Run[Any]
    series: list[dict[str, np.ndarray]]
    old: list[np.ndarray]
    new: list[np.ndarray]
    last: TracedIteration
    result: Result


@pytest.fixture(scope="module")
def traced() -> TracedRun:
    run = TINY.run(MCPO(memory_size=5), num_seeds=2, bootstrap_truncation=False)
    series, old, new = [], [], []
    for iteration in traced_iterations(run, quiet=True):
        series.append(iteration.series)
        old.append(iteration.old.parameters)
        new.append(np.array(iteration.state.learner.policy.parameters))
    return TracedRun(run, series, old, new, iteration, train(run, quiet=True))


def assert_same(iteration: TracedIteration, result: Result) -> None:
    """Up to rounding: the trace makes another program, which XLA may fuse differently."""
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, iteration.state.learner, result.state.learner)
    jax.tree.map(close, iteration.state.observer, result.state.observer)


def test_a_traced_run_ends_in_the_same_state(traced: TracedRun) -> None:
    assert_same(traced.last, traced.result)


def test_a_traced_run_of_a_single_seed_ends_in_the_same_state() -> None:
    run = TINY.run(MCPO(memory_size=3, hidden_sizes=(8,)), total_timesteps=128)
    *_, last = traced_iterations(run, quiet=True)
    assert_same(last, train(run, quiet=True))


def test_the_series_have_the_means_of_the_records(traced: TracedRun) -> None:
    for series, record in zip(traced.series, traced.result.records, strict=True):
        for name in SERIES:
            assert series[name].shape == (2, UPDATES)
            np.testing.assert_allclose(series[name].mean(axis=1), record[f"mcpo/{name}"], rtol=1e-5)


def test_old_is_the_final_policy_of_the_previous_iteration(traced: TracedRun) -> None:
    np.testing.assert_array_equal(traced.old[1:], traced.new[:-1])
    assert not np.array_equal(traced.old[0], traced.new[0])


def test_a_policy_plays_the_same_episodes_every_time(traced: TracedRun) -> None:
    returns = [play_episodes(traced.run, traced.last, traced.last.old, 3) for _ in range(2)]
    np.testing.assert_array_equal(*returns)
    assert (returns[0][0] != returns[0][1]).any(), "two seeds play different episodes"


def test_the_attended_policy_has_its_rank_in_the_memory(trace: Trace) -> None:
    """Simulates the memory with the numbers of the policies."""
    assert [segment.iteration for segment in trace.segments] == list(range(6))
    memory = [0]
    for segment in trace.segments:
        assert segment.old == segment.iteration * UPDATES
        for update, attended, rank in zip(
            segment.updates, segment.attended, segment.series["attended_rank"], strict=True
        ):
            assert memory[int(rank)] == attended
            if update in segment.written:
                memory = [int(update), *memory][:5]
    assert len(memory) == 5, "too few writes to test anything"


def test_beta_and_writes_follow_from_the_distances(trace: Trace) -> None:
    values = {name: np.concatenate([segment.series[name] for segment in trace.segments]) for name in SERIES[2:]}
    outside = (values["kl_old_new"] > values["kl_old_virtual"]).reshape(-1, TINY.num_minibatches)
    decided = np.where(outside[:, 0], 10.0, 0.01)  # by the first minibatch of each epoch
    assert len(np.unique(decided)) == 2
    np.testing.assert_array_equal(values["beta"], np.repeat(decided, TINY.num_minibatches))
    farther = values["kl_new_virtual"] > values["kl_old_virtual"]
    updates = np.concatenate([segment.updates for segment in trace.segments])
    np.testing.assert_array_equal(np.concatenate([segment.written for segment in trace.segments]), updates[farther])


def test_the_means_are_those_of_the_segments(trace: Trace) -> None:
    assert trace.means["iteration"].tolist() == [0, 1, 2, 3, 4, 5]
    for name in ("beta", "alpha", "kl_old_new"):
        exact = [segment.series[name].mean() for segment in trace.segments]
        np.testing.assert_allclose(trace.means[name], exact, rtol=1e-3)
    writes = [len(segment.written) / UPDATES for segment in trace.segments]
    np.testing.assert_allclose(trace.means["written"], writes, rtol=1e-3)


def test_old_and_virtual_policies_play_at_every_iteration_of_a_short_run(trace: Trace) -> None:
    assert [checkpoint.steps for checkpoint in trace.checkpoints] == [64 * number for number in range(1, 7)]
    for _, old, virtual in trace.checkpoints:
        assert old.shape == virtual.shape == (2, EPISODES)
        assert (old >= 8).all(), "CartPole falls after eight steps at the earliest"
    assert any((old != virtual).any() for _, old, virtual in trace.checkpoints)


def test_the_file_is_readable_and_defines_its_run(folder: Path, trace: Trace) -> None:
    path = folder / "traces" / "tiny__MCPO-N-5__paper.json"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert (trace.task, trace.method, trace.protocol) == ("tiny", "MCPO N=5", "paper")
    assert (trace.run.seed, trace.run.num_seeds, trace.run.bootstrap_truncation) == (3, 2, False)
    assert trace.run.algorithm == TINY.tuned(method("MCPO N=5"))
    assert {"trustax", "jax", "python"} <= trace.versions.keys()
    assert trace.hardware
    assert trace.seconds > 0
    lines = path.read_text().splitlines()
    assert lines[1] == '"task": "tiny",'
    assert sum(line.startswith('"kl_old_new": [') for line in lines) == 1 + len(trace.segments)
    digits = json.loads(path.read_text())["stretches"][2]["kl_old_new"]
    assert all(float(f"{value:.4g}") == value for value in digits)


def test_a_failed_write_keeps_the_earlier_trace(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("full")

    path = tmp_path / "traces" / "tiny__MCPO-N-5__paper.json"
    path.parent.mkdir()
    monkeypatch.setattr(os, "replace", fail)
    path.write_bytes((folder / "traces" / path.name).read_bytes())
    with pytest.raises(TrustaxError, match="cannot be written"):
        write_trace(tmp_path, "tiny", "MCPO N=5", total_timesteps=64, num_seeds=2, quiet=True)
    assert path.read_bytes() == (folder / "traces" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"method": "PPO ε=0.2"}, "only MCPO can be traced"),
        ({"method": "MCPO N=11"}, "did you mean MCPO N=10"),
        ({"task": "unlok"}, "did you mean unlock"),
        ({"protocol": "papers"}, "did you mean paper"),
    ],
)
def test_a_tracing_error_is_one_line(tmp_path: Path, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(TrustaxError, match=reason) as caught:
        write_trace(tmp_path, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"run": 1}'])
def test_a_damaged_trace_is_a_one_line_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(TrustaxError, match="not a trace of Trustax") as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_has_no_traces(tmp_path: Path) -> None:
    assert read_traces(tmp_path / "nowhere", "paper") == []


@pytest.mark.parametrize("name", TASKS)
def test_on_every_task_the_window_is_recorded_within_the_budget(name: str) -> None:
    run = TASKS[name].run(MCPO())
    updates = updates_per_iteration(TASKS[name].tuned(MCPO()))
    kept = exact_iterations(run.num_iterations, updates)
    assert {0, *(number // updates for number in range(*WINDOW))} <= kept
    assert max(kept) < run.num_iterations
    assert EXACT_UPDATES / 2 < len(kept) * updates <= EXACT_UPDATES
