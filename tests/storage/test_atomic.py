"""Files are written as a whole, however many threads and processes write them."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trustax.errors import TrustaxError
from trustax.storage.atomic import write_atomic


def test_two_threads_may_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    texts = [letter * 10_000 for letter in "ab"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: write_atomic(path, texts[number % 2]), range(200)))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual.txt").touch()
    write_atomic(tmp_path / "notes.txt", "")
    assert len({stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual.txt", "notes.txt")}) == 1


@pytest.mark.parametrize(
    ("error", "shown"), [(OSError("full"), TrustaxError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, shown: type[BaseException]
) -> None:
    def fail(_: int) -> None:
        assert len(list(tmp_path.glob(".notes.txt.*"))) == 1  # `storage.opening` knows this prefix
        raise error

    path = tmp_path / "notes.txt"
    write_atomic(path, "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(shown):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
