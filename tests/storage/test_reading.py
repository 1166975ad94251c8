"""No reader waits for a pipe, follows a link to an endless device or reads more than its limit."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reliability.made import RUN

import trustax as tx
from trustax.ops.metrics import STEP
from trustax.paper.results import read_file
from trustax.paper.trace.trace import read_trace
from trustax.run import RUN_FILE, read_run
from trustax.storage.journal import METRICS_FILE, Journal, read_records
from trustax.storage.manifest import MANIFEST
from trustax.storage.reading import complete_lines, open_regular, read_limited
from trustax.storage.records import EVALUATIONS_FILE
from trustax.sweeps.worker import last_record

READERS: dict[str, Callable[[Path], Any]] = {
    RUN_FILE: read_run,
    METRICS_FILE: read_records,
    MANIFEST: lambda folder: tx.load(folder),
    EVALUATIONS_FILE: lambda folder: tx.Evaluate().on_start(RUN, folder, 0),
    "outcome.json": lambda folder: read_file(folder / "outcome.json"),
    "trace.json": lambda folder: read_trace(folder / "trace.json"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)],
    ids=["pipe", "folder", "endless"],
)
def test_only_regular_files_are_read(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    make(tmp_path / name)
    with pytest.raises(tx.TrustaxError, match="not a regular file"):
        READERS[name](tmp_path)


def test_a_pipe_instead_of_the_metrics_file_does_not_block_progress_or_a_resumed_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / METRICS_FILE)
    assert last_record(tmp_path) is None
    with pytest.raises(tx.TrustaxError, match="not a regular file"):
        Journal(tmp_path, resume_at=8)


@pytest.mark.parametrize("name", [RUN_FILE, MANIFEST, "outcome.json", "trace.json"])
def test_a_file_above_the_size_limit_is_refused_without_reading_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 10 * 2**40)  # takes no space on the disk
    with pytest.raises(tx.TrustaxError, match="larger than"):
        READERS[name](tmp_path)


def test_limits_are_exact_and_links_are_followed_unless_forbidden(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12\n345\n6")
    (tmp_path / "link").symlink_to("file")
    assert read_limited(tmp_path / "link", limit=8) == b"12\n345\n6"
    for limit, follow_links in ((7, True), (8, False)):
        with pytest.raises(OSError, match=r"larger than 7 bytes|not a regular file"):
            read_limited(tmp_path / "link", limit, follow_links)
    with open_regular(tmp_path / "file") as file:
        assert list(complete_lines(file, end=8, limit=4)) == [b"12\n", b"345\n"]
    with open_regular(tmp_path / "file") as file:
        assert list(complete_lines(file, end=6)) == [b"12\n"]
    with open_regular(tmp_path / "file") as file, pytest.raises(OSError, match="a line is longer than 3 bytes"):
        list(complete_lines(file, end=8, limit=3))


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"step": 8}', f'{{"{STEP}": 8, "eval/mean_reward": ["x"]}}', "[" * 100_000]
)
def test_a_damaged_evaluation_raises_a_one_line_error_and_an_unfinished_one_is_dropped(
    tmp_path: Path, line: str
) -> None:
    good = f'{{"{STEP}": 8, "eval/mean_reward": [1.0]}}\n'
    (tmp_path / EVALUATIONS_FILE).write_text(good + line)
    evaluate = tx.Evaluate()
    evaluate.on_start(RUN, tmp_path, 8)
    assert evaluate.best == 1.0
    assert (tmp_path / EVALUATIONS_FILE).read_text() == good
    (tmp_path / EVALUATIONS_FILE).write_text(f"{good}{line}\n")
    with pytest.raises(tx.TrustaxError, match=r"evaluations.jsonl, line 2: .*; correct or delete this line$"):
        evaluate.on_start(RUN, tmp_path, 8)
