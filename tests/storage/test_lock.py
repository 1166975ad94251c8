"""Only one process writes to a run's folder, wherever the folder is moved, and nothing is left behind."""

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trustax.errors import TrustaxError
from trustax.storage.lease import Lease
from trustax.storage.lock import locked


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / "run"):
        assert names(tmp_path / "new") == ["run"]
    assert names(tmp_path) == ["new"]
    assert names(tmp_path / "new") == []
    (tmp_path / "old").mkdir()
    with locked(tmp_path / "old") as claim:
        (tmp_path / "old" / "file").touch()
        claim.check()
    assert names(tmp_path / "old") == ["file"]


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_does_not_keep_the_folder_locked_or_unlock_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(tmp_path))
        if (child := os.fork()) == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent closes the pipe
            os._exit(0)
        if (leaving := os.fork()) == 0:
            stack.close()
            os._exit(0)
        os.waitpid(leaving, 0)
        with pytest.raises(TrustaxError, match="is being trained by"):
            locked(tmp_path, patience=0.0).__enter__()
    with locked(tmp_path, patience=0.0):
        pass
    os.close(writer)
    os.waitpid(child, 0)


def test_an_error_names_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    code = f"import fcntl, os; fcntl.flock(os.open({str(tmp_path)!r}, 0), fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(TrustaxError, match="is being trained by another process"):
            locked(tmp_path, patience=0.0).__enter__()
        other.communicate(b"\n")
    with locked(tmp_path, patience=0.0):
        pass


def test_a_renamed_folder_stays_locked_under_its_new_name(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as claim:
        (tmp_path / "run").rename(tmp_path / "moved")
        with pytest.raises(TrustaxError, match="was moved or deleted during training"):
            claim.check()
        with pytest.raises(TrustaxError, match=r"being trained by (this|another) process"):
            locked(tmp_path / "moved", patience=0.0).__enter__()
        with locked(tmp_path / "run", patience=0.0), pytest.raises(TrustaxError, match="was moved or deleted"):
            claim.check()  # a new folder of the old name


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOLCK, errno.EBADF])
def test_a_lease_protects_a_run_on_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "run") as first:
        first.check()
        with locked(tmp_path / "run") as second:
            second.check()
            with pytest.raises(TrustaxError, match=rf"taken over by a later attempt \(PID {os.getpid()} on '"):
                first.check()
        with pytest.raises(TrustaxError, match="taken over by a later attempt, which has ended"):
            first.check()
    assert names(tmp_path) == []


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(TrustaxError, match="exists and is not a run folder"):
        locked(tmp_path / "run").__enter__()


def test_a_new_lease_takes_precedence_over_an_abandoned_one(tmp_path: Path) -> None:
    old = Lease.take(tmp_path)  # of a process that was killed, or only seemed to be
    new = Lease.take(tmp_path)
    assert (old.number, new.number) == (1, 2)
    old.release()
    assert names(tmp_path) == ["lease.1", "lease.2"]
    new.release()
    assert names(tmp_path) == []
    assert Lease.take(tmp_path).number == 1
    with pytest.raises(TrustaxError, match="was taken over by a later attempt"):
        old.check()


def test_two_simultaneous_attempts_get_two_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lease.take(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("trustax.storage.lease._numbers", lambda folder: [])  # as listed before the first was there
        second = Lease.take(tmp_path)
    assert (first.number, second.number) == (1, 2)


@pytest.mark.parametrize("content", ["", "[]", '{"pid": "x", "host": 3}', "[" * 4000])
def test_a_lease_with_unknown_content_still_counts(tmp_path: Path, content: Any) -> None:
    lease = Lease.take(tmp_path)
    (tmp_path / "lease.7").write_text(content)
    (tmp_path / "lease.txt").touch()
    with pytest.raises(TrustaxError, match="taken over by a later attempt; this one stops"):
        lease.check()
    assert Lease.take(tmp_path).number == 8
