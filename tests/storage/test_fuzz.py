"""Damaged and hostile files are refused in one line or read as they were; `python -m reliability.fuzz` tries more."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from reliability import fuzz as fuzzing
from reliability.fuzz import cases, reason_to_fail

from trustax.errors import TrustaxError

ROOT = Path(fuzzing.__file__).parents[1]


def test_damaged_and_hostile_files_are_refused_or_read_correctly() -> None:
    """In another process: here every call is type-checked, which it is not for users."""
    done = subprocess.run(
        [sys.executable, "-m", "reliability.fuzz", "60"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "60 of 60 passed\n", done.stdout + done.stderr[-2000:]


def test_fuzz_cases_are_deterministic_and_cover_every_mutation() -> None:
    assert list(map(str, cases(100, seed=3))) == list(map(str, cases(100, seed=3)))
    assert list(map(str, cases(100, seed=3))) != list(map(str, cases(100, seed=4)))
    wanted = {(target, mutation) for target, mutations in fuzzing.TARGETS for mutation in mutations}
    assert {(case.target, case.mutation) for case in cases(len(wanted))} == wanted


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda: None, None),
        (lambda: int("x"), "ValueError: invalid literal"),
        (lambda: os.system("true"), r"executed or imported: .*os\.system"),
        (lambda: sum(range(10**7)), r"took .* s and"),
    ],
    ids=["sound", "another error", "a command", "too long"],
)
def test_a_faulty_reader_fails_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[], object], reason: str | None
) -> None:
    monkeypatch.setattr(fuzzing, "SECONDS", 0.02)
    found = reason_to_fail(read, tmp_path / "canary")
    assert found is None if reason is None else re.match(reason, found or "")


def test_an_error_must_be_one_line() -> None:
    with fuzzing.refusal_allowed():
        raise TrustaxError("one line")
    with pytest.raises(AssertionError, match="several lines"), fuzzing.refusal_allowed():
        raise TrustaxError("two\nlines")
