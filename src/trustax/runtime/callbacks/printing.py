"""Report the progress of a run to a function."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trustax.ops.metrics import RETURN, Record, finite_values
from trustax.settings import CheckedSettings, setting

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration


@dataclass(kw_only=True)
class PrintProgress(CheckedSettings):
    """Call a function with the steps so far and the newest metrics every `interval` iterations."""

    function: Callable[[int, dict[str, Any]], Any] = lambda timesteps, record: print(progress_line(timesteps, record))
    interval: int = setting(1, minimum=1)

    def on_iteration(self, iteration: "Iteration") -> None:
        if iteration.number % self.interval == 0 or iteration.is_last:
            self.function(iteration.timesteps, iteration.record)


def progress_line(timesteps: int, record: Record) -> str:
    """The steps so far, and the mean return over the learners that have ended an episode.

    >>> progress_line(8192, {RETURN: [1.0, 2.0, None]}), progress_line(8192, {RETURN: [None]})
    ('8,192 steps: return 1.50', '8,192 steps: no episode has ended')
    """
    returns = finite_values(record.get(RETURN))
    return f"{timesteps:,} steps: " + (f"return {fmean(returns):.2f}" if returns else "no episode has ended")
