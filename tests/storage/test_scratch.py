"""Temporary folders: those of killed processes are removed, and those in use or kept are not."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trustax.storage.scratch import ScratchFolder, remove_leftovers

KILLED = """
import os
from trustax.storage.scratch import ScratchFolder
scratch = ScratchFolder("run")
scratch.create()
print(scratch.folder, flush=True)
input()
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(temporary: Path) -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        folder = Path(other.stdout.readline().strip())
        remove_leftovers()
        assert folder.parent.parent == temporary
        assert folder.exists()  # its process lives
        other.communicate("\n")
    assert folder.exists()
    own = ScratchFolder("run")
    own.create()
    assert list(temporary.iterdir()) == [own.folder.parent]
    own.remove()
    assert list(temporary.iterdir()) == []


def test_a_kept_folder_stays(temporary: Path) -> None:
    scratch = ScratchFolder("run")
    scratch.create()
    scratch.keep()
    assert scratch._descriptor is not None
    os.close(scratch._descriptor)  # as when its process ends
    remove_leftovers()
    assert scratch.folder.exists()


def test_folders_of_other_programs_and_machines_stay(temporary: Path) -> None:
    for name in ("trustax-mine", "other"):
        (temporary / name).mkdir()
    remove_leftovers()
    assert sorted(path.name for path in temporary.iterdir()) == ["other", "trustax-mine"]
