"""R3: SIGTERM saves the run, ends it with exit code 75, and the resumed run is exact; also for `trustax reproduce`."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from reliability.rows import Row
from reliability.runs import EVALUATE, ROOT, command, difference, finish, measured, start, wait_for_file
from trustax.run import RUN_FILE
from trustax.runtime.interrupt import EXIT_CODE
from trustax.storage.history import newest_valid, step_of
from trustax.storage.journal import read_records
from trustax.storage.lock import locked

SECONDS = 10.0
"""A run ends within so many seconds after a signal, or after it has compiled."""


def check(full: bool) -> Row:
    row = Row("R3", "SIGTERM at random moments, also while it compiles, evaluates and saves; exit code 75; resume")
    _terminate(row, "ppo", "native:CartPole-v1", 20 if full else 1)
    if full:
        _terminate(row, "mcpo", "native:Pendulum-v1", 10)
    with tempfile.TemporaryDirectory() as temporary:
        whole = Path(temporary) / "whole" / "runs"
        _finish_reproduce(whole)
        for number in range(10 if full else 1):
            victim = ("parent", "worker")[number % 2]
            with row.trial(f"kill -9 of the {victim} of trustax reproduce"):
                _kill_reproduce(victim, Path(temporary) / str(number) / "runs", whole)
    return row


def _terminate(row: Row, method: str, env: str, trials: int) -> None:
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as temporary:
        reference = Path(temporary) / "reference"
        finish(command(method, env, Path(temporary) / "first", **EVALUATE))  # compiles
        seconds = finish(command(method, env, reference, **EVALUATE))
        number, wanted = 0, row.tried + trials
        while row.tried < wanted and number < 3 * trials:
            number += 1
            folder = Path(temporary) / f"run-{number}"
            arguments = command(method, env, folder, **EVALUATE)
            problem = _stopped(arguments, folder, generator.uniform(0, 0.7 * seconds))
            if problem == "":
                continue  # it had ended before the signal came
            if problem is None:
                try:
                    finish(arguments)
                    problem = difference(folder, reference)
                except Exception as error:
                    problem = str(error)
            row.count(problem and f"{method}: {problem}")


def _stopped(arguments: list[str], folder: Path, seconds: float) -> str | None:
    """Send SIGTERM some seconds after the run has made its folder; what is wrong, or "" if it had ended before."""
    process = start(arguments)
    wait_for_file(folder / RUN_FILE, process)
    try:
        process.wait(timeout=seconds)
        process.communicate()
        return ""
    except subprocess.TimeoutExpired:
        is_compiled = (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0
        process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    _, stderr = process.communicate()
    if process.returncode == 0:
        return ""  # the signal came with the last iteration
    if process.returncode != EXIT_CODE:
        return f"exit code {process.returncode}: {stderr.splitlines()[-1:]}"
    if is_compiled and time.monotonic() - began > SECONDS:
        return f"it ended only {time.monotonic() - began:.1f} s after the signal"
    records, saved = read_records(folder), newest_valid(folder)
    if records and (saved is None or step_of(saved) != records[-1]["time/total_timesteps"]):
        return "the last iteration is not saved"
    return None


def _kill_reproduce(victim: str, runs: Path, whole: Path) -> None:
    """Kill the parent or the worker of a sweep, run the same command again, and compare with a sweep left alone."""
    process = _reproduce(runs)
    metrics = _wait_for_metrics(runs, process)
    time.sleep(random.uniform(0, 1))
    if victim == "parent":
        process.kill()
        process.communicate()
        with locked(metrics.parent, patience=60.0):  # its worker has noticed and ended
            pass
    else:
        for pid in _children(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()
    _finish_reproduce(runs)
    killed, expected = (measured(read_records(next(folder.glob("*/*/")))) for folder in (runs, whole))
    assert killed == expected, "the metrics differ"
    assert not list(runs.rglob(".tmp-*")), "the kill left files behind"


def _finish_reproduce(runs: Path) -> None:
    process = _reproduce(runs)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr


def _reproduce(runs: Path) -> subprocess.Popen[str]:
    part = ["table-1", "--methods", "PPO ε=0.3", "--tasks", "pendulum", "--seeds", "1", "--steps", str(8192 * 20)]
    folders = ["--runs", str(runs), "--results", str(runs.parent / "results")]
    arguments = [sys.executable, "-m", "trustax.cli.main", "reproduce", *part, *folders, "--jobs", "1"]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def _wait_for_metrics(runs: Path, process: subprocess.Popen[str]) -> Path:
    while True:
        found = [path for path in runs.glob("*/*/metrics.jsonl") if path.stat().st_size]
        if found:
            return found[0]
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()]


CHECKS = {"R3": check}
