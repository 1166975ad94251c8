"""Evaluate the learners of a run while it trains."""

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from trustax.envs import Environment
from trustax.envs.engines import is_known, resolve
from trustax.errors import TrustaxError
from trustax.evaluation import EvaluationStopped, evaluate_all
from trustax.ops.metrics import EVALUATION_LENGTH, EVALUATION_RETURN, STEP, Record, finite_values
from trustax.run import Run
from trustax.settings import CheckedSettings, setting
from trustax.storage.atomic import AppendOnlyFile, write_atomic
from trustax.storage.records import EVALUATIONS_FILE, read_evaluations

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration

BEST_AGENT = "best.agent"


@dataclass(kw_only=True)
class Evaluate(CheckedSettings):
    """Evaluate every learner at regular intervals, in separate environments, and save the best agent.

    The loggers of the run get the mean return and the mean length of each learner's episodes as `eval/mean_reward` and
    `eval/mean_ep_length`. Each evaluation is a line of `evaluations.jsonl` in the run's folder, which `trustax plot RUN
    --metric eval/mean_reward` plots. The agent with the highest mean return is saved there as `best.agent`, which
    `trustax.load` reads.
    """

    interval: int = setting(10, minimum=1)
    """Iterations between evaluations; the last iteration is always evaluated, also if a callback stops the run."""
    episodes: int = setting(10, minimum=1)
    """Episodes per learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely one."""
    env: Environment | None = None
    """Another environment than the run's; required if the run's environment was not given by its id."""
    in_every_process: ClassVar[bool] = True
    is_unique: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.evaluations: list[Record] = []
        """One record per evaluation, with the metrics that the loggers get."""

    @property
    def best(self) -> float:
        """The highest mean return of a learner so far."""
        returns = (finite_values(one.get(EVALUATION_RETURN)) for one in self.evaluations)
        return max((value for values in returns for value in values), default=float("-inf"))

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        """Start without evaluations, or with those up to the checkpoint from which the run resumes."""
        if self.env is None and not is_known(run.env_id):
            raise TrustaxError(
                f"Evaluate needs an environment, because that of the run, {run.env_id}, was not given by its id; "
                "pass the same environment as Evaluate(env=...)"
            )
        if self.env is not None:
            resolve(self.env)  # raises an error now instead of at the first evaluation
        self.evaluations = []
        if run_dir is not None and (run_dir / EVALUATIONS_FILE).exists():
            self.evaluations = [one for one in read_evaluations(run_dir) if one[STEP] <= timesteps]
            write_atomic(run_dir / EVALUATIONS_FILE, "".join(json.dumps(one) + "\n" for one in self.evaluations))

    def on_resume(self, iteration: "Iteration") -> None:
        """Evaluate the restored learners if the run was killed after they were saved and before their evaluation."""
        if self._is_missing(iteration):
            self.on_iteration(iteration)

    def on_iteration(self, iteration: "Iteration") -> None:
        if iteration.number % self.interval == 0 or iteration.is_last:
            self._evaluate(iteration)

    def on_stop(self, iteration: "Iteration") -> None:
        """Evaluate the learners with which a callback stops the run."""
        if self._is_missing(iteration):
            self._evaluate(iteration)

    def _is_missing(self, iteration: "Iteration") -> bool:
        """Whether process 0 has no evaluation of an iteration."""
        return bool(iteration.group.gather(all(one[STEP] != iteration.timesteps for one in self.evaluations))[0])

    def _evaluate(self, iteration: "Iteration") -> None:
        env = iteration.run.env_id if self.env is None else self.env
        agents = {learner: iteration.agent(learner) for learner in iteration.learners}
        seeds = [iteration.run.seeds[learner] for learner in agents]
        try:
            results = evaluate_all(
                list(agents.values()),
                env,
                seeds,
                self.episodes,
                not self.stochastic,
                should_stop=lambda: iteration.should_stop() and not iteration.is_last,
            )
        except EvaluationStopped:
            return  # `on_resume` repeats the evaluation
        own = [(float(result.returns.mean()), float(result.lengths.mean())) for result in results]
        means, lengths = map(list, zip(*(one for part in iteration.group.gather(own) for one in part), strict=True))
        best = means.index(max(means))
        if iteration.run_dir is not None and means[best] > self.best and best in agents:
            agents[best].save(iteration.run_dir / BEST_AGENT)
        iteration.group.gather(None)  # the best agent is saved before the line that says so
        metrics = {EVALUATION_RETURN: means, EVALUATION_LENGTH: lengths}
        self.evaluations.append({STEP: iteration.timesteps} | metrics)
        iteration.log(metrics)
        if iteration.run_dir is not None and iteration.group.is_first:
            _append(iteration.run_dir / EVALUATIONS_FILE, self.evaluations[-1])


def _append(path: Path, record: Record) -> None:
    """Append a line to a file, and wait until it is on the disk."""
    with closing(AppendOnlyFile(path)) as file:
        file.append(f"{json.dumps(record)}\n".encode())
        file.sync()
