"""Signals stop runs, which save; guards may be left in any order, and a terminal may be closed."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trustax as tx
from trustax.runtime.interrupt import ENDING, EXIT_CODE, REPEATED, InterruptGuard
from trustax.storage.history import newest_valid

RUN = tx.Run(
    algorithm=tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(4,)),
    env_id="CartPole-v1",
    total_timesteps=2 * 64,
    num_envs=2,
    horizon=32,
)
LOGIN = "import os, sys; os.login_tty(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
"""Runs a command in a terminal of its own."""


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in ENDING + REPEATED]


@pytest.fixture(autouse=True)
def before() -> Iterator[list[Any]]:
    """The handlers of a program that is started in a terminal, also if these tests are not."""
    found, usual = handlers(), [signal.default_int_handler, *[signal.SIG_DFL] * (len(ENDING + REPEATED) - 1)]
    for number, handler in zip(ENDING + REPEATED, usual, strict=True):
        signal.signal(number, handler)
    yield usual
    for number, handler in zip(ENDING + REPEATED, found, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING + REPEATED)
def test_a_signal_is_a_request_to_stop(number: int, before: list[Any]) -> None:
    with InterruptGuard() as guard:
        for _ in range(3 if number in REPEATED else 1):  # a closed terminal may send several
            signal.raise_signal(number)
        assert guard.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert handlers() == before


def test_a_guard_leaves_signals_alone_that_are_ignored_or_used_by_the_program() -> None:
    used: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGUSR1, lambda number, frame: used.append(number))
    with InterruptGuard() as guard:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR1)
        assert not guard.requested
    assert used == [signal.SIGUSR1]


def test_runs_that_take_turns_leave_the_signals_as_they_were(before: list[Any]) -> None:
    for _ in zip(tx.iterations(RUN), tx.iterations(RUN), strict=False):  # the first one ends first
        pass
    assert handlers() == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_guard_that_was_left_passes_signals_on_to_those_before_it(before: list[Any]) -> None:
    first, second, third = (InterruptGuard().__enter__() for _ in range(3))
    for guard in (first, second):
        guard.__exit__(None, None, None)
    signal.raise_signal(signal.SIGUSR1)
    assert [guard.requested for guard in (first, second, third)] == [False, False, True]
    third.__exit__(None, None, None)
    assert handlers() == before


def test_a_guard_keeps_the_handler_of_a_program_that_has_replaced_its_own() -> None:
    seen: list[int] = []
    with InterruptGuard() as guard:
        inner = signal.getsignal(signal.SIGINT)
        assert callable(inner)

        def mine(number: int, frame: Any) -> None:
            seen.append(number)
            inner(number, frame)

        signal.signal(signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) == mine
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert seen == [signal.SIGINT]
    assert not guard.requested


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, 7), (signal.SIGINT, 7)]
)
def test_a_forked_process_ends_by_sigterm_and_ignores_other_signals(
    number: int, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with InterruptGuard(), InterruptGuard() as guard:
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(number)
            finally:
                os._exit(7)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == expected
        assert not guard.requested
    assert capfd.readouterr().err == ""


def test_a_guard_leaves_handlers_alone_that_are_not_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    found = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else found(number))
    with InterruptGuard() as guard:
        assert found(signal.SIGTERM) == signal.SIG_DFL
        signal.raise_signal(signal.SIGINT)
        assert guard.requested


def test_a_run_whose_terminal_is_closed_saves_and_exits_with_75(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trustax.cli.main", "train", "ppo", "--env-id", "CartPole-v1"]
    command += ["--total-timesteps", "1000000000", "--run-dir", str(tmp_path / "run"), "--horizon", "64"]
    command += ["--num-epochs", "2", "--num-minibatches", "4", "--hidden-sizes", "8"]
    screen, terminal = pty.openpty()
    login = [sys.executable, "-c", LOGIN, str(terminal)]
    process = subprocess.Popen([*login, *command], pass_fds=[terminal])
    os.close(terminal)
    os.set_blocking(screen, False)
    metrics = tmp_path / "run" / "metrics.jsonl"
    shown = b""
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        try:
            shown += os.read(screen, 65_536)
        except BlockingIOError:
            time.sleep(0.02)
    os.close(screen)
    assert process.wait(timeout=300) == EXIT_CODE, shown
    assert newest_valid(tmp_path / "run") is not None


def test_a_run_whose_output_nobody_reads_trains_to_its_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "trustax.cli.main", "train", "ppo", "--env-id", "CartPole-v1"]
    command += ["--total-timesteps", "256", "--run-dir", str(tmp_path / "run"), "--num-envs", "2", "--horizon", "64"]
    command += ["--num-epochs", "2", "--num-minibatches", "4", "--hidden-sizes", "8"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    assert process.wait(timeout=300) == 0
    saved = newest_valid(tmp_path / "run")
    assert saved is not None
    assert saved.name == "step_000000000256"


def test_an_iteration_that_has_passed_its_checks_is_saved_if_the_run_ends_while_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr("trustax.cli.progress.Terminal.update", leave)
    with pytest.raises(SystemExit):
        tx.train(RUN, run_dir=tmp_path / "run", checkpoint_seconds=1e6, quiet=True)
    saved = newest_valid(tmp_path / "run")
    assert saved is not None
    assert saved.name == "step_000000000064"
