"""Report the progress of a run to a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trustax.runtime.callbacks.stopping import mean_return
from trustax.settings import CheckedSettings, setting

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration


@dataclass(kw_only=True)
class PrintProgress(CheckedSettings):
    """Call a function with the steps so far and the newest metrics every `interval` iterations."""

    function: Callable[[int, dict[str, Any]], Any] = lambda timesteps, record: print(
        f"{timesteps:,} steps: return {mean_return(record):.2f}"
    )
    interval: int = setting(1, minimum=1)

    def on_iteration(self, iteration: "Iteration") -> None:
        if iteration.number % self.interval == 0 or iteration.is_last:
            self.function(iteration.timesteps, iteration.record)
