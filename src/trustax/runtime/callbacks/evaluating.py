"""Evaluate the learners of a run while it trains."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trustax.envs import Environment
from trustax.envs.engines import is_known
from trustax.errors import TrustaxError
from trustax.evaluation import evaluate
from trustax.run import Run
from trustax.settings import CheckedSettings, setting
from trustax.storage.atomic import write_atomic
from trustax.storage.reading import complete_lines, open_regular

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration

BEST_AGENT = "best.agent"
EVALUATIONS_FILE = "evaluations.jsonl"
MEAN_REWARD, MEAN_LENGTH = "eval/mean_reward", "eval/mean_ep_length"
"""The names of Stable-Baselines3."""


@dataclass(kw_only=True)
class Evaluate(CheckedSettings):
    """Evaluate every learner at regular intervals, in separate environments, and save the best agent.

    The loggers of the run get the mean return and the mean length of each learner's episodes as `eval/mean_reward` and
    `eval/mean_ep_length`. Each evaluation is a line of `evaluations.jsonl` in the run's folder. The agent with the
    highest mean return is saved there as `best.agent`, which `trustax.load` reads.
    """

    interval: int = setting(10, minimum=1)
    """Iterations between evaluations; the last iteration is always evaluated."""
    episodes: int = setting(10, minimum=1)
    """Episodes per learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely one."""
    env: Environment | None = None
    """Another environment than the run's; required if the run's environment was not given by its id."""
    in_every_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.evaluations: list[dict[str, Any]] = []
        """One entry per evaluation: its step, and the mean return of each learner."""

    @property
    def best(self) -> float:
        """The highest mean return of a learner so far."""
        return max((max(one["returns"]) for one in self.evaluations), default=float("-inf"))

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        """Start without evaluations, or with those up to the checkpoint from which the run resumes."""
        if self.env is None and not is_known(run.env_id):
            raise TrustaxError(
                f"Evaluate needs an environment, because the run's, {run.env_id}, was not given by its id; "
                "pass the same to Evaluate(env=...)"
            )
        self.evaluations = []
        path = None if run_dir is None else run_dir / EVALUATIONS_FILE
        if path is not None and path.exists():
            self.evaluations = [one for one in _read_evaluations(path) if one["step"] <= timesteps]
            write_atomic(path, "".join(json.dumps(one) + "\n" for one in self.evaluations))

    def on_iteration(self, iteration: "Iteration") -> None:
        if iteration.number % self.interval and not iteration.is_last:
            return
        env = iteration.run.env_id if self.env is None else self.env
        best_so_far = self.best
        agents = {learner: iteration.agent(learner) for learner in iteration.learners}
        results = [
            evaluate(agent, env, self.episodes, not self.stochastic, iteration.run.seeds[learner])
            for learner, agent in agents.items()
        ]
        own = [(float(result.returns.mean()), float(result.lengths.mean())) for result in results]
        means, lengths = map(list, zip(*(one for part in iteration.group.gather(own) for one in part), strict=True))
        self.evaluations.append({"step": iteration.timesteps, "returns": means})
        iteration.log({MEAN_REWARD: means, MEAN_LENGTH: lengths})
        if iteration.run_dir is None:
            return
        if iteration.group.is_first:
            with (iteration.run_dir / EVALUATIONS_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.evaluations[-1]) + "\n")
        best = means.index(max(means))
        if means[best] > best_so_far and best in agents:
            agents[best].save(iteration.run_dir / BEST_AGENT)


def _read_evaluations(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of `evaluations.jsonl`."""
    try:
        with open_regular(path) as file:
            lines = [json.loads(line) for line in complete_lines(file, path.stat().st_size)]
        return [{"step": int(line["step"]), "returns": [float(one) for one in line["returns"]]} for line in lines]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise TrustaxError(f"{path} cannot be read: {error}; move it away to resume without it") from error
