"""Every line is strict JSON, TensorBoard can read its part, and a resumed run leaves no trace of the kill."""

import json
from pathlib import Path
from typing import Any

import pytest

from trustax.errors import TrustaxError
from trustax.ops.metrics import finite_values
from trustax.storage.journal import METRICS_FILE, Journal, read_records

NAN, INFINITY = float("nan"), float("inf")


def metrics(step: int, **others: Any) -> dict[str, Any]:
    return {"time/total_timesteps": step, "rollout/ep_rew_mean": [1.0 * step, 3.0 * step], **others}


def test_lines_are_strict_json_and_records_are_the_same(tmp_path: Path) -> None:
    with Journal(tmp_path / "run") as journal:
        journal.record(metrics(8, loss=NAN, spread=[1.0, INFINITY], **{"time/iterations": 1}))
        journal.record(metrics(16))
        assert len(read_records(tmp_path / "run")) == 2  # on disk before it is closed

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    lines = (tmp_path / "run" / METRICS_FILE).read_text().splitlines()
    parsed = [json.loads(line, parse_constant=refuse) for line in lines]
    assert parsed == journal.records == read_records(tmp_path / "run")
    assert parsed[0]["loss"] is None
    assert parsed[0]["spread"] == [1.0, None]
    assert parsed[1] == metrics(16)


def test_a_record_without_its_step_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, pytest.raises(ValueError, match="time/total_timesteps"):
        journal.record({"rollout/ep_rew_mean": 1.0})
    assert journal.records == read_records(tmp_path) == []


def test_without_a_folder_records_are_remembered() -> None:
    with Journal(None) as journal:
        journal.record(metrics(8, loss=NAN))
    assert journal.records == [metrics(8, loss=None)]


@pytest.mark.parametrize("tail", ["", '{"time/total_timesteps": 32, "rol'])
@pytest.mark.parametrize(("resume_at", "kept"), [(0, []), (8, [8]), (20, [8, 16]), (24, [8, 16, 24])])
def test_resuming_takes_back_what_came_after_the_checkpoint(
    tmp_path: Path, tail: str, resume_at: int, kept: list[int]
) -> None:
    with Journal(tmp_path) as journal:
        for step in (8, 16, 24):
            journal.record(metrics(step))
    with open(tmp_path / METRICS_FILE, "a") as file:
        file.write(tail)
    with Journal(tmp_path, resume_at=resume_at) as journal:
        assert journal.records == [metrics(step) for step in kept]
        journal.record(metrics(99))
    assert journal.records == read_records(tmp_path) == [metrics(step) for step in [*kept, 99]]


def test_a_run_is_not_overwritten_by_mistake(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.record(metrics(8))
    with pytest.raises(TrustaxError, match="resume"):
        Journal(tmp_path)
    assert read_records(tmp_path) == [metrics(8)]


def test_resuming_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with Journal(tmp_path, resume_at=0) as journal:
        journal.record(metrics(8))
    assert read_records(tmp_path) == [metrics(8)]


@pytest.mark.parametrize("line", ["nonsense", "[1]", "{}", "[" * 100_000])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / METRICS_FILE).write_text(f"{json.dumps(metrics(8))}\n{line}\n{json.dumps(metrics(16))}\n")
    with pytest.raises(TrustaxError, match="line 2"):
        read_records(tmp_path)


def test_a_full_disk_is_one_clear_line_and_closing_stays_quiet(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        full = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
        assert journal._file is not None
        journal._file._file.close()
        journal._file._file = full
        with pytest.raises(TrustaxError, match=r"metrics\.jsonl: No space left on device"):
            journal.record(metrics(8))
    assert full.closed


def test_a_folder_that_cannot_be_made_or_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrustaxError, match="file"):
        Journal(tmp_path / "file" / "run")
    with pytest.raises(TrustaxError, match=r"metrics\.jsonl: No such file"):
        read_records(tmp_path)


def test_finite_values() -> None:
    assert finite_values([1, None, NAN, -2.5]) == [1.0, -2.5]
    assert finite_values(INFINITY) == finite_values(None) == finite_values([None]) == []
