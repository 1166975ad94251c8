"""SLURM gets the jobs of every sweep as one array."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.test_pool import job
from trustax.sweeps.engines import make_engine


class FakeExecutor:
    """An executor of submitit that only counts."""

    arrays: list[int]
    """number of jobs of each array; a job outside a batch is an array of its own"""
    is_open = False

    def __init__(self, **_: Any) -> None:
        pass

    def update_parameters(self, **_: Any) -> None:
        pass

    @contextmanager
    def batch(self) -> Iterator[None]:
        self.is_open = True
        self.arrays.append(0)
        yield
        self.is_open = False

    def submit(self, *_: Any) -> None:
        if not self.is_open:
            self.arrays.append(0)
        self.arrays[-1] += 1


def test_an_engine_that_is_used_again_submits_another_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tune` uses one engine for all its generations."""
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(submitit, "AutoExecutor", FakeExecutor)
    monkeypatch.setattr(FakeExecutor, "arrays", [], raising=False)
    engine = make_engine("slurm")
    for count in (2, 3):
        with engine:
            engine.prepare(count)
            for number in range(count):
                engine.start(job(tmp_path, f"run-{number}"), "worker")
    assert FakeExecutor.arrays == [2, 3]
