"""The table of `docs/reliability.md` is that of the results, and the checks themselves can fail."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from reliability import saves
from reliability.__main__ import checks, main
from reliability.rows import Row
from reliability.runs import difference, one_error_line
from reliability.supply_chain import dangerous
from reliability.table import PAGE, read, with_table

from trustax.storage.history import checkpoint_path
from trustax.storage.pytree import save


def test_the_page_on_reliability_has_the_table_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, read()) == page, "run make reliability"


def test_the_results_are_of_known_rows_and_none_failed() -> None:
    rows = [Row(**row) for row in read()["rows"]]
    assert [row.name for row in rows] == [name for name in checks() if name in {row.name for row in rows}]
    assert [row.failures for row in rows if row.failed] == []


def test_a_row_counts_its_trials() -> None:
    row = Row("R1", "")
    with row.trial("good"):
        pass
    with row.trial("bad"):
        raise ValueError("two\nlines")
    row.count("three of a kind", trials=3)
    assert (row.tried, row.passed, row.failed) == (5, 1, True)
    assert row.failures == ["bad: ValueError: two lines", "three of a kind"]


def test_a_run_that_differs_is_detected(tmp_path: Path) -> None:
    for name, fill in (("one", 1.0), ("same", 1.0), ("other", 2.0)):
        save(checkpoint_path(tmp_path / name, 8), {"weights": saves._tree(1)["weights"] * fill}, {})
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"time/total_timesteps": 8, "time/fps": fill}) + "\n")
    assert difference(tmp_path / "one", tmp_path / "same") is None
    assert difference(tmp_path / "other", tmp_path / "one") == "the arrays of the last checkpoint differ"
    (tmp_path / "one" / "evaluations.jsonl").write_text("{}\n")
    assert difference(tmp_path / "same", tmp_path / "one") == "evaluations.jsonl differs"
    shutil.copy(tmp_path / "one" / "evaluations.jsonl", tmp_path / "same")
    (tmp_path / "same" / "checkpoints" / ".tmp-half").mkdir()
    assert difference(tmp_path / "same", tmp_path / "one") == "leftovers: .tmp-half"


def test_dangerous_code_and_errors_of_several_lines_are_detected() -> None:
    assert dangerous("import os, pickle\nfrom dill import loads\nexec('1')") == {"pickle", "dill", "exec"}
    assert dangerous("import json\njson.loads('1')\nre.compile('a')") == set()
    assert one_error_line("warning\ntrustax: no space\n")
    assert not one_error_line("Traceback (most recent call last):\ntrustax: no space\n")


def test_rows_are_kept_and_a_failed_one_gives_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(name: str, full: bool) -> Row:
        row = Row(name, "a test")
        row.count("it broke" if name == "R6" else None)
        return row

    monkeypatch.setattr("reliability.__main__.run_in_process", failing)
    monkeypatch.setattr("reliability.__main__.use_cache", lambda folder, quick: None)
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr("reliability.__main__.RESULTS", results)
    monkeypatch.setattr("reliability.__main__.PAGE", page)
    for only, code in ((["R4"], 0), (["R6"], 1)):
        monkeypatch.setattr(sys, "argv", ["reliability", "--only", *only])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert leaving.value.code == code
    assert [row["name"] for row in json.loads(results.read_text())["rows"]] == ["R4", "R6"], "rows are kept"
    assert "| R6 | a test | 1 | 0 |" in page.read_text(encoding="utf-8")
