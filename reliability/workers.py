"""Worker processes of environments that fail: they are named or replaced, and no process is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from reliability.failing_env import FAULTS, PLACES, FailingEnv
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.workers import CLOSING_SECONDS, Workers
from trustax.errors import TrustaxError

NUM_ENVS, NUM_STEPS = 4, 20
HANG_SECONDS = 3.0
SECONDS_TO_NAME = 5.0
SECONDS_TO_END = 5.0
CAUSES = {
    "exception": "raised RuntimeError: the arm is stuck",
    "exit": "exited with code 3",
    "kill": "was killed by SIGKILL",
    "hang": "did not answer within",
}


class ProblemError(Exception):
    """What went wrong in a case."""


def cases() -> Iterator[tuple[str, str, bool]]:
    """Every fault at every place, with workers that are named and with workers that are replaced."""
    yield from ((fault, place, restart) for fault in FAULTS for place in PLACES for restart in (False, True))


def check() -> tuple[int, int, list[str]]:
    """How many cases were tried, how many passed, and the failures of the others."""
    failures = []
    for fault, place, restart in cases():
        try:
            try_case(fault, place, restart)
        except ProblemError as problem:
            failures.append(f"{fault} in {place}{' with restart' if restart else ''}: {problem}")
    try:
        try_killed_parent()
    except ProblemError as problem:
        failures.append(f"killed parent: {problem}")
    tried = len(list(cases())) + 1
    return tried, tried - len(failures), failures


def try_case(fault: str, place: str, restart: bool) -> None:
    """Play with two workers, of which one fails; raise `ProblemError` if it is not handled as promised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        timeout = HANG_SECONDS if fault == "hang" else 60.0
        said, moment, restarts = _play(partial(FailingEnv, fault, place, folder), Workers(2, timeout, restart))
        late = moment - (folder / "failed").stat().st_mtime
        allowed = SECONDS_TO_NAME + (min(timeout, CLOSING_SECONDS) if fault == "hang" else 0.0)
        processes = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    if CAUSES[fault] not in said or "worker " not in said or "\n" in said:
        raise ProblemError(f"expected {CAUSES[fault]!r}, got {said!r}")
    if late > allowed:
        raise ProblemError(f"named after {late:.1f} s")
    if restarts != int(restart and place != "close"):
        raise ProblemError(f"{restarts} restarts")
    _require_gone(processes)


def _play(make_env: partial[FailingEnv], workers: Workers) -> tuple[str, float, int]:
    """What was said of the failure, when, and how many workers were replaced."""
    said: list[tuple[str, float]] = []
    environment = None
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: said.append((str(message), time.time()))
        try:
            environment = GymnasiumHost(make_env, [0], NUM_ENVS, workers=workers)
            environment.reset()
            for _ in range(NUM_STEPS):
                environment.step(np.zeros((1, NUM_ENVS), int))
        except TrustaxError as error:
            said.append((str(error), time.time()))
        finally:
            if environment is not None:
                environment.close()
    if len(said) != 1:
        raise ProblemError(f"expected one message, got {said}")
    assert environment is not None
    return *said[0], environment.restarts


def try_killed_parent() -> None:
    """Kill a process whose workers hang; they must end with it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = f"from reliability.workers import hang; hang({name!r})"
        parent = subprocess.Popen([sys.executable, "-c", script])
        while parent.poll() is None and not (folder / "failed").exists():
            time.sleep(0.05)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        processes = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    if len(processes) != 2:
        raise ProblemError(f"expected 2 workers, got {len(processes)}")
    _require_gone(processes)


def hang(folder: str) -> None:
    """Play until a worker hangs, and wait for it."""
    _play(partial(FailingEnv, "hang", "step", Path(folder)), Workers(2, 3600.0))


def _require_gone(processes: list[int]) -> None:
    """Wait until the processes are gone; a zombie is not gone."""
    deadline = time.monotonic() + SECONDS_TO_END
    while left := [process for process in processes if _exists(process)]:
        if time.monotonic() > deadline:
            raise ProblemError(f"the processes {left} are left")
        time.sleep(0.02)


def _exists(process: int) -> bool:
    """Whether a process runs, or has ended and was not waited for by this process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/status")
    try:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    except FileNotFoundError:
        return False
    # The zombie of another process, such as that of a killed parent, is waited for by the system.
    return not fields["State"].strip().startswith("Z") or int(fields["PPid"]) == os.getpid()
