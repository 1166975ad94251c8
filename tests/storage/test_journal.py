"""Every line is strict JSON, TensorBoard can read its part, and a resumed run leaves no trace of the kill."""

import json
import os
import tracemalloc
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


def test_records_are_kept_in_memory_without_a_folder() -> None:
    with Journal(None) as journal:
        journal.record(metrics(8, loss=NAN))
    assert journal.records == [metrics(8, loss=None)]


@pytest.mark.parametrize("tail", ["", '{"time/total_timesteps": 32, "rol'])
@pytest.mark.parametrize(("resume_at", "kept"), [(0, []), (8, [8]), (20, [8, 16]), (24, [8, 16, 24])])
def test_resuming_removes_the_records_after_the_checkpoint(
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


def test_a_run_without_records_can_be_resumed(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with Journal(tmp_path, resume_at=0) as journal:
        journal.record(metrics(8))
    assert read_records(tmp_path) == [metrics(8)]


@pytest.mark.parametrize("line", ["nonsense", "[1]", "{}", "[" * 100_000])
def test_an_error_names_the_damaged_line(tmp_path: Path, line: str) -> None:
    (tmp_path / METRICS_FILE).write_text(f"{json.dumps(metrics(8))}\n{line}\n{json.dumps(metrics(16))}\n")
    with pytest.raises(TrustaxError, match="line 2"):
        list(read_records(tmp_path))


def test_a_full_disk_raises_a_one_line_error_and_closing_raises_none(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        full = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
        assert journal._file is not None
        journal._file._file.close()
        journal._file._file = full
        with pytest.raises(TrustaxError, match=r"metrics\.jsonl: No space left on device"):
            journal.record(metrics(8))
    assert full.closed


def test_an_error_names_a_folder_that_cannot_be_created_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrustaxError, match="file"):
        Journal(tmp_path / "file" / "run")
    with pytest.raises(TrustaxError, match=r"metrics\.jsonl: No such file"):
        read_records(tmp_path)


def test_only_finite_values_are_kept() -> None:
    assert finite_values([1, None, NAN, -2.5]) == [1.0, -2.5]
    assert finite_values(INFINITY) == finite_values(None) == finite_values([None]) == []


def test_missing_iterations_before_the_checkpoint_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(tmp_path) as journal:
        for step in (8, 16, 32, 64):
            journal.record(metrics(step))
    Journal(tmp_path, resume_at=16, batch_size=8).close()
    assert not capsys.readouterr().err
    with Journal(tmp_path, resume_at=16) as journal:
        journal.record(metrics(32))
    Journal(tmp_path, resume_at=56, batch_size=8).close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "metrics.jsonl lacks iterations 3, 5 to 7, which were lost" in line
    (tmp_path / METRICS_FILE).unlink()
    Journal(tmp_path, resume_at=16, batch_size=8).close()
    assert "lacks iterations 1 to 2," in capsys.readouterr().err


def test_steps_out_of_order_are_refused_and_nothing_is_removed(tmp_path: Path) -> None:
    text = "".join(f"{json.dumps(metrics(step))}\n" for step in (8, 96, 24))
    (tmp_path / METRICS_FILE).write_text(text)
    with pytest.raises(TrustaxError, match="line 3: time/total_timesteps is out of order"):
        Journal(tmp_path, resume_at=24)
    assert (tmp_path / METRICS_FILE).read_text() == text


def test_records_are_on_the_disk_before_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    with Journal(tmp_path) as journal:
        journal.record(metrics(8))
        journal.sync()
    assert synced == [(tmp_path / METRICS_FILE).stat().st_size]


@pytest.mark.parametrize("value", ['"abc"', "1" + 400 * "0", "[[1.0]]", '{"a": 1}', '[1.0, "x"]'])
def test_an_error_names_a_value_that_is_not_a_number(tmp_path: Path, value: str) -> None:
    line = f'{{"time/total_timesteps": 8, "rollout/ep_rew_mean": {value}}}'
    (tmp_path / METRICS_FILE).write_text(f"{json.dumps(metrics(4))}\n{line}\n")
    for use in (lambda: list(read_records(tmp_path)), lambda: Journal(tmp_path, resume_at=8)):
        with pytest.raises(TrustaxError, match=r"line 2: rollout/ep_rew_mean is .*, not a number"):
            use()


def test_records_in_a_file_are_found_by_their_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trustax.storage.records.CHUNK", 100)  # shorter than the longest lines
    expected = [metrics(step, note=[0.5] * (step % 40)) for step in range(1, 60)]
    with Journal(tmp_path) as journal:
        for one in expected[:30]:
            journal.record(one)
    with Journal(tmp_path, resume_at=30) as journal:
        for one in expected[30:]:
            journal.record(one)
        for records in (journal.records, read_records(tmp_path)):
            assert len(records) == 59
            assert [records[index] for index in range(59)] == expected
            assert records[-1] == expected[-1]
            assert records[5:-1:7] == expected[5:-1:7]
            with pytest.raises(IndexError):
                records[59]


def test_an_endless_line_is_refused_before_the_whole_file_is_read(tmp_path: Path) -> None:
    (tmp_path / METRICS_FILE).write_text(f"{json.dumps(metrics(8))}\n")
    os.truncate(tmp_path / METRICS_FILE, 10 * 2**40)  # takes no space on the disk
    for use in (len, list):
        with pytest.raises(TrustaxError, match="a line is longer than"):
            use(read_records(tmp_path))


def test_records_in_memory_keep_their_numbers_and_types() -> None:
    expected = [
        {"time/total_timesteps": 8, "loss": 0.1, "returns": [None, 2.0], "counts": [1, 2], "none": []},
        {"time/total_timesteps": 16, "loss": None, "returns": [1.0, None], "counts": [3, None], "none": []},
        {"time/total_timesteps": 24, "returns": [1.0, 1e300, -0.0]},
    ]
    with Journal(None) as journal:
        for one in expected:
            journal.record(one)
    assert [repr(one) for one in journal.records] == [repr(one) for one in expected]
    assert journal.records == expected
    assert journal.records != expected[:2]
    assert journal.records[1:] == expected[1:]


def test_the_records_of_a_long_run_use_little_memory(tmp_path: Path) -> None:
    one = {f"train/metric_{number}": [0.25, 0.5] for number in range(40)}
    tracemalloc.start()
    with Journal(tmp_path) as journal:
        for step in range(1, 201):
            journal.record(one | {"time/total_timesteps": step})
        assert len(journal.records) == journal.records[-1]["time/total_timesteps"] == 200
        assert journal.records[100]["time/total_timesteps"] == 101
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 150_000  # 200 dictionaries would take 1 MB
