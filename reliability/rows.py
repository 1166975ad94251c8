"""`Row`: one line of the table, made by counting trials."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_FAILURES = 20


@dataclass
class Row:
    """A promise and the trials that test it."""

    name: str
    """the number of the promise, R1 to R20"""
    test: str
    """what is tried"""
    tried: int = 0
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    """the first failures, one line each"""
    not_run: str = ""
    """why a part was not run; empty if all was"""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return self.passed < self.tried or bool(self.failures)

    def count(self, failure: str | None = None, trials: int = 1) -> None:
        """Count trials that passed, or that failed for a reason."""
        self.tried += trials
        if failure is None:
            self.passed += trials
        elif len(self.failures) < MOST_FAILURES:
            self.failures.append(" ".join(failure.split())[:300])

    def add(self, tried: int, passed: int, failures: Iterable[Any]) -> None:
        """Add the counts of a check that counts by itself."""
        self.tried += tried
        self.passed += passed
        self.failures += [" ".join(str(one).split())[:300] for one in failures][:MOST_FAILURES]

    @contextmanager
    def trial(self, name: str) -> Iterator[None]:
        """Count one trial; any exception, such as a failed assertion, is its failure."""
        try:
            yield
        except Exception as error:
            self.count(f"{name}: {type(error).__name__}: {error}")
        else:
            self.count()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[[bool], Row]
"""Runs the trials of a row; all of them, or a few if the argument is False."""
