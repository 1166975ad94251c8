"""The bar and the lines say the right numbers, on resuming too, and keep to stderr."""

import contextlib
import io
import os
from typing import Any

import pytest
from rich.console import Console

from trustax.cli.formatting import mean_and_spread, short_count, short_duration
from trustax.cli.progress import Terminal


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain_console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=width)


def bar_console(width: int = 120) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def record(step: int, returns: Any = None) -> dict[str, Any]:
    return {"time/total_timesteps": step, "time/fps": 1.0, "rollout/ep_rew_mean": returns}


def train(terminal: Terminal, clock: Clock, steps: range, seconds: float, returns: Any = None) -> None:
    for step in steps:
        clock.now += seconds
        terminal.update(record(step, returns))


def test_a_log_gets_a_line_every_ten_seconds_and_one_at_the_end() -> None:
    clock, console = Clock(), plain_console(width=20)
    with Terminal(100_000, "mcpo Pendulum-v1 [seed]", console=console, clock=clock) as terminal:
        train(terminal, clock, range(1000, 50_001, 1000), seconds=0.5, returns=[100.0, 200.0])
        train(terminal, clock, range(51_000, 100_001, 1000), seconds=0.5, returns=[300.0, 400.0])
    lines = output(console).splitlines()
    assert len(lines) == 6
    assert lines[0] == ("mcpo Pendulum-v1 [seed]: 20k/100k steps, 2k steps/s, return 150.0 ± 50.0, 40 s left")
    assert lines[-1] == (
        "mcpo Pendulum-v1 [seed]: finished at 100k/100k steps after 50 s (2k steps/s), return 350.0 ± 50.0"
    )


def test_the_return_is_unknown_before_the_first_episode_ends() -> None:
    clock, console = Clock(), plain_console()
    with Terminal(100, "run", console=console, clock=clock) as terminal:
        train(terminal, clock, range(10, 11), seconds=11, returns=[None, float("nan")])
    assert "return …," in output(console).splitlines()[0]
    assert "stopped at 10/100 steps" in output(console).splitlines()[1]


def test_the_rate_counts_the_steps_of_all_seeds() -> None:
    clock, console = Clock(), plain_console()
    with Terminal(40_000, "run", num_seeds=3, console=console, clock=clock) as terminal:
        train(terminal, clock, range(1000, 40_001, 1000), seconds=0.5, returns=[1.0, 1.0, 1.0])
    lines = output(console).splitlines()
    assert "20k/40k steps, 6k steps/s, return 1.00 ± 0.00, 10 s left" in lines[0]
    assert "(6k steps/s)" in lines[-1]


def test_a_finished_run_is_reported_as_finished() -> None:
    console = plain_console()
    with Terminal(40_000, "run", initial_timesteps=40_000, console=console):
        pass
    assert output(console) == "run: already finished at 40k steps; increase total_timesteps to train longer\n"


def test_a_resumed_run_counts_earlier_steps_as_done_but_not_in_its_rate() -> None:
    clock, console = Clock(), plain_console()
    options: dict[str, Any] = {"initial_timesteps": 900_000, "console": console, "clock": clock}
    with Terminal(1_000_000, "run", **options) as terminal:
        train(terminal, clock, range(901_000, 911_000, 1000), seconds=1.0)
    assert output(console).splitlines() == [
        "run: 910k/1M steps, 1k steps/s, return …, 1 min 30 s left",
        "run: stopped at 910k/1M steps after 10 s (1k steps/s), return …",
    ]


def test_the_time_left_follows_the_recent_rate_without_compilation() -> None:
    clock, console = Clock(), plain_console()
    with Terminal(200_000, "run", console=console, clock=clock) as terminal:
        with terminal.timed("compiling"):
            clock.now += 61.5
        train(terminal, clock, range(1000, 60_001, 1000), seconds=1.0)
        train(terminal, clock, range(70_000, 160_001, 10_000), seconds=10.0)
    lines = output(console).splitlines()
    assert lines[:2] == ["run: compiling …", "run: compiling took 61.5 s"]
    assert "1k steps/s" in lines[2]
    assert lines[-1].startswith("run: stopped at 160k/200k steps after 3 min 42 s (1k steps/s)")


def test_a_first_iteration_that_compiles_is_not_part_of_the_rate() -> None:
    clock, console = Clock(), plain_console()
    with Terminal(200_000, "run", console=console, clock=clock) as terminal:
        terminal.expect_slow_start("compiling in the first iteration")
        train(terminal, clock, [1000], seconds=60.0)
        train(terminal, clock, range(2000, 20_001, 1000), seconds=1.0)
    lines = output(console).splitlines()
    assert lines[:2] == ["run: compiling in the first iteration …", "run: 1k/200k steps, return …"]
    assert "1k steps/s, return …, 3 min 0" in lines[2]


def test_the_recent_rate_forgets_old_measurements() -> None:
    clock, console = Clock(), plain_console()
    with Terminal(10_000, "run", console=console, clock=clock) as terminal:
        train(terminal, clock, range(10, 601, 10), seconds=1.0)
        train(terminal, clock, range(700, 5001, 100), seconds=1.0)
    assert ": 4.6k/10k steps, 100 steps/s, return …, 54 s left" in output(console)


def test_an_interrupted_run_is_not_reported_as_finished() -> None:
    console = plain_console()
    with contextlib.suppress(KeyboardInterrupt), Terminal(100, "run", console=console) as terminal:
        terminal.update(record(100))
        raise KeyboardInterrupt
    assert "stopped at 100/100" in output(console)


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_a_bar_with_all_values_and_a_narrow_one_without_the_rate(width: int) -> None:
    clock, console = Clock(), bar_console(width)
    title = "mcpo [x] on CartPole-v1 × 3 seeds"
    with Terminal(1_000_000, title, console=console, clock=clock, initial_timesteps=400_000) as terminal:
        with terminal.timed("compiling"):
            clock.now += 3.0
        train(terminal, clock, range(401_000, 500_001, 1000), seconds=0.1, returns=[-150.0, -160.0])
    text = output(console)
    assert "compiling took 3.0 s" in text
    assert "finished" not in text
    bar = next(line for line in reversed(text.splitlines()) if "━" in line)
    wide = ("500k/1M steps", "10k steps/s") if width == 120 else ("500k/1M ",)
    for part in (title, *wide, "return -155.0 ± 5.0", "50 s left"):
        assert part in bar


@pytest.mark.parametrize("is_terminal", ["0", "1"])
def test_a_run_whose_output_nobody_reads_goes_on(is_terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `2>&1 | head`."""
    monkeypatch.setenv("TTY_COMPATIBLE", is_terminal)
    reader, writer = os.pipe()
    with open(writer, "w", buffering=1) as stderr, monkeypatch.context() as patch:
        patch.setattr("sys.stderr", stderr)
        with Terminal(100, "run") as terminal, terminal.timed("compiling"):
            os.close(reader)
            terminal.note("nobody reads this")
            terminal.update(record(100))
        assert stderr.isatty() is False
        with pytest.raises(BrokenPipeError):
            stderr.write("\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # so that it can be closed


@pytest.mark.parametrize("console", [plain_console(), bar_console()])
def test_quiet_prints_nothing(console: Console) -> None:
    with Terminal(100, "run", quiet=True, console=console) as terminal:
        with terminal.timed("compiling"):
            pass
        terminal.update(record(100, 1.0))
    assert output(console) == ""


def test_progress_does_not_write_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(100, "run") as terminal, terminal.timed("compiling"):
        print("mine")
    captured = capsys.readouterr()
    assert captured.out == "mine\n"
    assert "compiling" in captured.err


def test_numbers_and_durations_are_formatted_for_reading() -> None:
    assert [short_count(n) for n in (0, 7, 999, 1000, 1234, 999_999, 2_500_000, 1e10)] == (
        ["0", "7", "999", "1k", "1.23k", "1M", "2.5M", "10G"]
    )
    assert [short_duration(s) for s in (0.2, 59.6, 3599, 86_400)] == [
        "0 s",
        "1 min 00 s",
        "59 min 59 s",
        "1 d 00 h",
    ]
    assert mean_and_spread(0.5) == mean_and_spread([0.5]) == "0.50"
    assert mean_and_spread([1000.0, 3000.0]) == "2000 ± 1000"
    assert mean_and_spread(None) == mean_and_spread([None, float("nan")]) == "…"
