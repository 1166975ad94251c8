"""Keep the agents of a run as they were at regular intervals."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.settings import CheckedSettings, setting

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration


@dataclass(kw_only=True)
class KeepAgents(CheckedSettings):
    """Save the agents of all learners at regular intervals, in `agents/` in the run's folder; none is deleted."""

    every: int = setting(100_000, minimum=1)
    """Environment steps per learner between saves."""
    in_every_process: ClassVar[bool] = True

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        if run_dir is None:
            raise TrustaxError("KeepAgents needs a run_dir, the folder in which it saves agents")

    def on_iteration(self, iteration: "Iteration") -> None:
        before = iteration.timesteps - iteration.run.batch_size
        if iteration.run_dir is None or (iteration.timesteps // self.every == before // self.every):
            return
        folder = iteration.run_dir / "agents" / f"step_{iteration.timesteps:012d}"
        names = iteration.run.learner_names
        for learner in iteration.learners:
            iteration.agent(learner).save(folder / f"seed_{names[learner]}.agent")

    on_resume = on_iteration
    """The agents of the restored iteration may be missing, or be those of an attempt that had come further."""
