"""A worker inside a task of Ray or SLURM says itself why it died."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trustax.sweeps.remote import RemoteWorker


class EndedProcess(subprocess.Popen):
    """A process that has ended before it gets its job."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.wait()


def test_a_worker_that_dies_at_once_gives_its_own_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dying.py").write_text("raise SystemExit('no such library')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", EndedProcess)
    assert RemoteWorker("{}", "dying", cpus=1).run() == (1, b"no such library\n")
