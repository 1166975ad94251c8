"""Stop a run early, by the mean return of its last training episodes."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from trustax.ops.metrics import RETURN, Record, finite_values
from trustax.run import Run
from trustax.settings import CheckedSettings, setting

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration


@dataclass(kw_only=True)
class StopAtReturn(CheckedSettings):
    """Stop when the mean return of the last 100 training episodes, averaged over all learners, reaches a value."""

    value: int | float
    """The return to reach."""

    def on_iteration(self, iteration: "Iteration") -> bool:
        return mean_return(iteration.record) >= self.value


@dataclass(kw_only=True)
class StopWithoutProgress(CheckedSettings):
    """Stop when the mean return has not improved for a number of iterations."""

    patience: int = setting(50, minimum=1)
    """Iterations without an improvement before the run stops."""
    min_delta: int | float = 0.0
    """How much higher a return must be to count as an improvement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forget()

    def _forget(self) -> None:
        self._seen, self._waited, self._best = 0, 0, float("-inf")

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        self._forget()

    def on_iteration(self, iteration: "Iteration") -> bool:
        """Use all records, so that a resumed run stops where an uninterrupted one would."""
        count = len(iteration.records)
        if count != self._seen + 1:  # the first iteration of a resumed run
            self._forget()
        for record in iteration.records if self._seen == 0 else [iteration.record]:
            self._compare(mean_return(record))
        self._seen = count
        return self._waited >= self.patience

    def _compare(self, value: float) -> None:
        if value > self._best + self.min_delta:
            self._best, self._waited = value, 0
        elif value > float("-inf"):  # every learner has ended an episode
            self._waited += 1


def mean_return(record: Record) -> float:
    """The mean over the learners; minus infinity until each of them has ended an episode."""
    returns = record.get(RETURN) or []
    values = finite_values(returns)
    return fmean(values) if values and len(values) == len(returns) else float("-inf")
