"""R7 and R8: a full disk, folders that cannot be written, and two processes on one folder."""

import ctypes
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trustax as tx
from reliability.rows import Row
from reliability.runs import command, difference, finish, one_error_line, start, wait_for_file

SHORT: dict[str, Any] = {"total_timesteps": 128 * 120}
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def check_full_disk(full: bool) -> Row:
    """The largest file that a process may write stands for the space on the disk: writing fails in any file."""
    row = Row("R7", "files cannot grow beyond a limit (checkpoint, metrics, TensorBoard, run.json); resume with space")
    env = "native:CartPole-v1"
    with tempfile.TemporaryDirectory() as temporary:
        reference = Path(temporary) / "reference"
        finish(command("ppo", env, reference, **SHORT))
        for limit in np.geomspace(200, 120_000, 20 if full else 2).astype(int).tolist():
            folder = Path(temporary) / f"limit-{limit}"
            with row.trial(f"limit {limit} bytes"):
                process = start(command("ppo", env, folder, **SHORT), preexec_fn=_limit(limit))
                _, stderr = process.communicate()
                if process.returncode:
                    assert process.returncode == 2, f"exit code {process.returncode}: {stderr[-300:]}"
                    assert one_error_line(stderr), stderr[-300:]
                finish(command("ppo", env, folder, **SHORT))
                problem = difference(folder, reference)
                assert problem is None, problem
    return row


def _limit(size: int) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def check_folders(full: bool) -> Row:
    row = Row("R8", "a folder that is read-only, missing, a file, deleted during the run, or in use by another process")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        for trial in (_read_only, _missing, _a_file, _deleted, _in_use):
            with row.trial(trial.__name__.strip("_").replace("_", " ")):
                trial(place / trial.__name__)
    return row


def _read_only(place: Path) -> None:
    place.mkdir(mode=0o555)
    process = start(command("ppo", "native:CartPole-v1", place / "run", **SHORT), preexec_fn=_obey_permissions)
    _, stderr = process.communicate()
    assert process.returncode == 2, f"exit code {process.returncode}: {stderr[-300:]}"
    assert one_error_line(stderr), stderr[-300:]
    assert "cannot be written" in stderr, stderr[-300:]


def _obey_permissions() -> None:
    """Without this capability, permissions hold for the superuser too."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def _missing(place: Path) -> None:
    folder = place / "deep" / "down" / "run"
    finish(command("ppo", "native:CartPole-v1", folder, **SHORT))
    tx.load(folder)


def _a_file(place: Path) -> None:
    place.write_text("mine")
    process = start(command("ppo", "native:CartPole-v1", place, **SHORT))
    _, stderr = process.communicate()
    assert process.returncode == 2, f"exit code {process.returncode}: {stderr[-300:]}"
    assert one_error_line(stderr), stderr[-300:]
    assert place.read_text() == "mine"


def _deleted(place: Path) -> None:
    process = start(command("ppo", "native:CartPole-v1", place / "run"))
    wait_for_file(place / "run" / "metrics.jsonl", process)
    shutil.rmtree(place / "run", ignore_errors=True)
    _, stderr = process.communicate()
    assert process.returncode in (0, 2), f"exit code {process.returncode}: {stderr[-300:]}"
    if process.returncode:
        assert one_error_line(stderr), stderr[-300:]
    else:
        tx.load(place / "run")


def _in_use(place: Path) -> None:
    first = start(command("ppo", "native:CartPole-v1", place / "run", total_timesteps=10**9))
    try:
        wait_for_file(place / "run" / "metrics.jsonl", first)
        second = start(command("ppo", "native:CartPole-v1", place / "run", total_timesteps=10**9))
        _, stderr = second.communicate()
        assert second.returncode == 2, f"exit code {second.returncode}: {stderr[-300:]}"
        assert one_error_line(stderr), stderr[-300:]
        assert "being trained by another process" in stderr, stderr[-300:]
        assert first.poll() is None, "the first process ended"
    finally:
        first.kill()
        first.communicate()


CHECKS = {"R7": check_full_disk, "R8": check_folders}
