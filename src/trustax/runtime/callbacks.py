"""Callbacks: functions and objects that are called after every iteration and may stop a run.

A callback is a callable `f(iteration)`, or an object with any of the methods of `Hooks`. If a callback returns True
after an iteration, the run is saved and stops; it can be resumed. Callbacks never change the numbers of a run.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from trustax.envs import Environment
from trustax.errors import TrustaxError, similar_or_all
from trustax.evaluation import evaluate
from trustax.ops.metrics import RETURN, finite_values
from trustax.run import Run
from trustax.runtime.distributed import Group
from trustax.settings import Registry, validated
from trustax.storage.atomic import write_atomic
from trustax.storage.reading import complete_lines, open_regular

if TYPE_CHECKING:
    from trustax.runtime.iteration import Iteration

HOOKS = ("on_start", "on_iteration", "on_checkpoint", "on_end")
BEST_AGENT = "best.agent"
EVALUATIONS_FILE = "evaluations.jsonl"


class Hooks(Protocol):
    """The methods that a callback may have; all are optional.

    In a distributed run, process 0 calls the callbacks. Those with an attribute `in_every_process = True` are called in
    every process, each with its own `iteration.learners`.
    """

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> Any:
        """Called before the first iteration. A resumed run starts at `timesteps`."""
        ...

    def on_iteration(self, iteration: "Iteration") -> Any:
        """Called after an iteration; True stops the run."""
        ...

    def on_checkpoint(self, iteration: "Iteration") -> Any:
        """Called after an iteration that was saved, before `on_iteration`."""
        ...

    def on_end(self, result: Any) -> Any:
        """Called when the run has ended or a callback has stopped it, with the result that `train` returns."""
        ...


Callback = Callable[["Iteration"], Any] | Any
"""A callable, or an object with any of the methods of `Hooks`."""


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._callbacks = list(callbacks)
        for callback in self._callbacks:
            if not callable(callback) and not any(hasattr(callback, hook) for hook in HOOKS):
                raise TrustaxError(
                    f"a callback must be a function of an iteration or have one of the methods {', '.join(HOOKS)}; "
                    f"{callback!r} has none"
                )

    def of_process(self, group: Group) -> "Callbacks":
        """The callbacks that a process of a distributed run calls."""
        if group.is_first:
            return self
        has_learners = not group.divides_envs
        return Callbacks(one for one in self._callbacks if has_learners and getattr(one, "in_every_process", False))

    def start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        self._call("on_start", run, run_dir, timesteps)

    def iteration(self, iteration: "Iteration") -> bool:
        """Call every callback, and return whether one of them stops the run."""
        answers = [
            callback.on_iteration(iteration) if hasattr(callback, "on_iteration") else callback(iteration)
            for callback in self._callbacks
            if hasattr(callback, "on_iteration") or callable(callback)
        ]
        return any(answer is True for answer in answers)

    def checkpoint(self, iteration: "Iteration") -> None:
        self._call("on_checkpoint", iteration)

    def end(self, result: Any) -> None:
        self._call("on_end", result)

    def _call(self, hook: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            if hasattr(callback, hook):
                getattr(callback, hook)(*arguments)


@dataclass(kw_only=True)
class Evaluate:
    """Evaluate every learner at regular intervals, in separate environments, and save the best agent.

    Each evaluation is a line of `evaluations.jsonl` in the run's folder. The agent with the highest mean return is
    saved there as `best.agent`, which `trustax.load` reads.
    """

    interval: int = 10
    """Iterations between evaluations; the last iteration is always evaluated."""
    episodes: int = 10
    """Episodes per learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely one."""
    env: Environment | None = None
    """Another environment than the run's; required if the run's environment was not given by its id."""
    in_every_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate(self)
        self.evaluations: list[dict[str, Any]] = []
        """One entry per evaluation: its step, and the mean return of each learner."""

    @property
    def best(self) -> float:
        """The highest mean return of a learner so far."""
        return max((max(one["returns"]) for one in self.evaluations), default=float("-inf"))

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        """Remove the evaluations after the checkpoint from which the run resumes."""
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
        parts = iteration.group.gather([float(result.returns.mean()) for result in results])
        means = [mean for part in parts for mean in part]
        self.evaluations.append({"step": iteration.timesteps, "returns": means})
        if iteration.run_dir is None:
            return
        if iteration.group.is_first:
            with (iteration.run_dir / EVALUATIONS_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.evaluations[-1]) + "\n")
        best = means.index(max(means))
        if means[best] > best_so_far and best in agents:
            agents[best].save(iteration.run_dir / BEST_AGENT)


@dataclass(kw_only=True)
class StopAtReturn:
    """Stop when the mean return of the last 100 training episodes, averaged over all learners, reaches a value."""

    value: int | float = float("inf")
    """The return to reach."""

    def __post_init__(self) -> None:
        _validate(self)

    def on_iteration(self, iteration: "Iteration") -> bool:
        return _mean_return(iteration.record) >= self.value


@dataclass(kw_only=True)
class StopWithoutProgress:
    """Stop when the mean return has not improved for a number of iterations."""

    patience: int = 50
    """Iterations without an improvement before the run stops."""
    min_delta: int | float = 0.0
    """How much higher a return must be to count as an improvement."""

    def __post_init__(self) -> None:
        _validate(self)
        self._seen, self._waited, self._best = 0, 0, float("-inf")

    def on_start(self, run: Run, run_dir: Path | None, timesteps: int) -> None:
        self.__post_init__()

    def on_iteration(self, iteration: "Iteration") -> bool:
        """Use all records, so that a resumed run stops where an uninterrupted one would."""
        count = len(iteration.records)
        if count != self._seen + 1:  # the first iteration of a resumed run
            self.__post_init__()
        for record in iteration.records if self._seen == 0 else [iteration.record]:
            improved = _mean_return(record) > self._best + self.min_delta
            self._best, self._waited = (_mean_return(record), 0) if improved else (self._best, self._waited + 1)
        self._seen = count
        return self._waited >= self.patience


@dataclass(kw_only=True)
class KeepAgents:
    """Save the agents of all learners at regular intervals, in `agents/` in the run's folder; none is deleted."""

    every: int = 100_000
    """Environment steps per learner between saves."""
    in_every_process: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate(self)

    def on_iteration(self, iteration: "Iteration") -> None:
        before = iteration.timesteps - iteration.run.batch_size
        if iteration.run_dir is None or (iteration.timesteps // self.every == before // self.every):
            return
        folder = iteration.run_dir / "agents" / f"step_{iteration.timesteps:012d}"
        names = iteration.run.learner_names
        for learner in iteration.learners:
            iteration.agent(learner).save(folder / f"seed_{names[learner]}.agent")


@dataclass(kw_only=True)
class PrintProgress:
    """Call a function with the steps so far and the newest metrics every `interval` iterations."""

    function: Callable[[int, dict[str, Any]], Any] = lambda timesteps, record: print(
        f"{timesteps:,} steps: return {_mean_return(record):.2f}"
    )
    interval: int = 1

    def on_iteration(self, iteration: "Iteration") -> None:
        if iteration.number % self.interval == 0 or iteration.is_last:
            self.function(iteration.timesteps, iteration.record)


CALLBACKS: Registry[type] = Registry(
    "callback",
    "trustax.callbacks",
    {
        "evaluate": Evaluate,
        "stop-at-return": StopAtReturn,
        "stop-without-progress": StopWithoutProgress,
        "keep-agents": KeepAgents,
        "progress": PrintProgress,
    },
)
"""Callbacks by name; `trustax.callbacks` is the entry-point group."""


def register_callback(name: str, callback: type) -> None:
    """Give a callback, a dataclass with any of the methods of `Hooks`, a name on the command line."""
    CALLBACKS.register(name, callback)


def callback_from_text(text: str) -> Any:
    """Create a callback from its text on the command line: a name, and settings after a colon.

    >>> callback_from_text("evaluate:interval=5,episodes=20").episodes
    20
    """
    name, _, rest = text.partition(":")
    callback = CALLBACKS.find(name)
    known = {field.name for field in fields(callback)}
    settings: dict[str, Any] = {}
    for setting in filter(None, rest.split(",")):
        key, equals, value = setting.partition("=")
        if key not in known or not equals:
            raise TrustaxError(f"callback {name} has no setting {key!r}; {similar_or_all(key, known)}")
        settings[key] = _parse_value(value)
    return callback(**settings)


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_evaluations(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of `evaluations.jsonl`."""
    try:
        with open_regular(path) as file:
            lines = [json.loads(line) for line in complete_lines(file, path.stat().st_size)]
        return [{"step": int(line["step"]), "returns": [float(one) for one in line["returns"]]} for line in lines]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise TrustaxError(f"{path} cannot be read: {error}; move it away to resume without it") from error


def _validate(callback: Any) -> None:
    for name, value in validated(type(callback), vars(callback)).items():
        setattr(callback, name, value)
    for name in ("interval", "episodes", "patience", "every"):
        if getattr(callback, name, 1) < 1:
            raise TrustaxError(f"{name} must be at least 1, not {getattr(callback, name)}")


def _mean_return(record: dict[str, Any]) -> float:
    """The mean over the learners; minus infinity before the first episode has ended."""
    values = finite_values(record.get(RETURN))
    return fmean(values) if values else float("-inf")
