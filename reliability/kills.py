"""R1 and R2: a run that is killed again and again ends exactly as if it had never been interrupted."""

import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from reliability.rows import Row
from reliability.runs import EVALUATE, command, difference, finish, start

METHODS = ("mcpo", "ppo", "trpo", "vmpo", "acktr")
KILLS_IN_A_ROW = 5
MOST_RUNS = 20
FILE_OPERATIONS = 16
"""A save has at least this many file operations."""


def check_native(full: bool) -> Row:
    row = Row("R1", "kill -9 at random moments, and inside a save; environments in JAX; resume")
    random, in_save = (8, 2) if full else (1, 1)
    for number, method in enumerate(METHODS if full else METHODS[:1]):
        _kill_and_compare(row, method, "native:CartPole-v1", random, in_save, seed=number)
    return row


def check_host(full: bool) -> Row:
    row = Row("R2", "the same with EnvPool and Gymnasium, with a restart interval")
    random, in_save = (8, 2) if full else (1, 0)
    for number, env in enumerate(("envpool:CartPole-v1", "gymnasium:CartPole-v1")):
        _kill_and_compare(row, "ppo", env, random, in_save, seed=number, restart_interval=20, total_timesteps=128 * 100)
    return row


def _kill_and_compare(row: Row, method: str, env: str, random: int, in_save: int, seed: int, **settings: Any) -> None:
    """Run once without interruption; then kill other runs until so many kills have happened, and compare each."""
    generator = np.random.default_rng(seed)
    settings |= EVALUATE
    with tempfile.TemporaryDirectory() as temporary:
        reference = Path(temporary) / "reference"
        finish(command(method, env, reference, **settings))  # compiles
        reference = Path(temporary) / "timed"
        seconds = finish(command(method, env, reference, **settings))
        kills: list[float | None] = [None] * in_save + list(generator.uniform(0, seconds, random))
        for attempt in range(MOST_RUNS):
            folder, happened = Path(temporary) / f"run-{attempt}", 0
            while kills and happened < KILLS_IN_A_ROW:
                where = generator.integers(1, 4), generator.integers(1, FILE_OPERATIONS + 1)
                faults = ("--kill-in-save", *map(str, where)) if kills[0] is None else ()
                if not _killed(command(method, env, folder, faults, **settings), kills[0]):
                    if kills[0] is not None:
                        kills[0] *= 0.7  # it had ended before: the machine is faster than when the time was drawn
                    break
                happened += 1
                kills.pop(0)
            problem = _problem(command(method, env, folder, **settings), folder, reference)
            row.count(problem and f"{method} on {env}, {happened} kills: {problem}", trials=happened)
            if not kills:
                return
        row.count(f"{method} on {env}: {len(kills)} kills never happened", trials=len(kills))


def _problem(arguments: list[str], folder: Path, reference: Path) -> str | None:
    """Resume a run to its end; what is wrong with it then."""
    try:
        finish(arguments)
        return difference(folder, reference)
    except Exception as error:
        return str(error)


def _killed(arguments: list[str], patience: float | None) -> bool:
    """Start a run and kill it after some seconds, or let it kill itself; return whether it was killed."""
    process = start(arguments)
    try:
        _, stderr = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        _, stderr = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"exit code {process.returncode}: {stderr[-300:]}")
    return process.returncode == -signal.SIGKILL


CHECKS = {"R1": check_native, "R2": check_host}
