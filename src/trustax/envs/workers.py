"""Gymnasium environments in worker processes: the same as `Copies`, with the copies divided over the workers."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from numbers import Integral, Real
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Space, Tuple
from gymnasium.vector.utils import CloudpickleWrapper

from trustax.envs.errors import FaultyEnvError, describe
from trustax.envs.stepping import Row
from trustax.envs.worker_handle import Worker, WorkerError
from trustax.errors import TrustaxError

MAX_FAILURES = 3
"""A worker that fails more often in a row is not replaced again."""
MAKING_SECONDS, CLOSING_SECONDS = 60.0, 5.0
TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Workers:
    """How Gymnasium environments are divided over worker processes; no setting changes the numbers of a run."""

    number: int = 0
    """The number of processes; 0 steps the environments in this process."""
    timeout: float = 60.0
    """Seconds after which a worker that does not answer counts as failed."""
    restart: bool = False
    """Replace a worker that fails, instead of raising an error."""

    def __post_init__(self) -> None:
        if not isinstance(self.number, Integral) or isinstance(self.number, bool) or self.number < 0:
            raise TrustaxError(f"num_workers must be a whole number of at least 0, not {self.number!r}")
        if not isinstance(self.timeout, Real) or not self.timeout > 0:
            raise TrustaxError(f"worker_timeout must be a positive number of seconds, not {self.timeout!r}")
        if self.restart and not self.number:
            raise TrustaxError("restart_workers=True needs worker processes; set num_workers to at least 1")


IN_PROCESS = Workers()


class WorkerCopies:
    """Copies of an environment in worker processes, with the interface of `Copies`.

    If a worker is replaced, its episodes end as truncated with their last observations, and new ones start.
    """

    def __init__(self, env: str | Callable[[], gymnasium.Env], count: int, settings: Workers) -> None:
        self.restarts = 0
        self._settings = settings
        source: Any = env, gymnasium.registry.get(env) if isinstance(env, str) else None
        self._source = CloudpickleWrapper(source)
        self._seeds: Sequence[int] = []
        self._ended = np.zeros(count, bool)
        self._is_broken = False
        chunks = np.array_split(np.arange(count), min(settings.number, count))
        self._workers = [Worker(number, int(chunk[0]), len(chunk)) for number, chunk in enumerate(chunks)]
        try:
            made = self._ask_all("make", [(self._source, worker.count) for worker in self._workers], MAKING_SECONDS)
            for worker, answer in zip(self._workers, made, strict=True):
                spaces = self._replace(worker, answer) if isinstance(answer, Exception) else answer
                self.observation_space, self.action_space = spaces.fn
        except BaseException:
            self._is_broken = True
            self.close()
            raise

    def reset(self, seeds: Sequence[int]) -> Any:
        self._seeds = seeds
        self._ended = np.zeros(len(seeds), bool)
        answers = self._ask_all("reset", [(seeds[worker.rows],) for worker in self._workers])
        for worker, answer in zip(self._workers, answers, strict=True):
            if isinstance(answer, Exception):
                answers[worker.number] = self._replace(worker, answer, reset=self._ended[worker.rows])
        self._observation = join(self.observation_space, answers)
        return self._observation

    def step(self, actions: np.ndarray) -> Row:
        answers = self._ask_all("step", [(actions[worker.rows],) for worker in self._workers])
        rows = []
        for worker, answer in zip(self._workers, answers, strict=True):
            is_cut = isinstance(answer, Exception)
            rows.append(self._cut_episodes(worker, answer) if is_cut else Row(*answer))
            worker.failures = worker.failures if is_cut else 0
        row = _join_rows(self.observation_space, rows)
        self._ended, self._observation = row.terminated | row.truncated, row.observation
        return row

    def close(self) -> None:
        """Close the environments and end the processes. A failure is only a warning: the run is complete."""
        answers: list[Any] = []
        if not self._is_broken:
            seconds = min(self._settings.timeout, CLOSING_SECONDS)
            answers = self._ask_all("close", [() for _ in self._workers], seconds, collect=True)
        for worker in self._workers:
            worker.wait(0.0 if self._is_broken else 1.0)
            worker.kill()
        self._workers = []
        for problem in filter(lambda answer: isinstance(answer, Exception), answers):
            warnings.warn(f"closing an environment failed: {problem}", stacklevel=3)

    def _ask_all(
        self, command: str, arguments: Sequence[tuple[Any, ...]], seconds: float = 0.0, collect: bool = False
    ) -> list[Any]:
        """Send a command to all workers; return their answers, with exceptions as answers where workers restart."""
        try:
            for worker, own in zip(self._workers, arguments, strict=True):
                worker.ask(command, *own)
        except Exception as error:  # raised by pickling
            self._is_broken = True
            raise TrustaxError(f"the environment cannot be sent to a worker process: {describe(error)}") from error
        seconds = max(self._settings.timeout, seconds) if command == "make" else seconds or self._settings.timeout
        return self._answers(self._workers, seconds, collect or self._settings.restart)

    def _answers(self, workers: Sequence[Worker], seconds: float, collect: bool) -> list[Any]:
        pending: dict[Any, Worker] = {worker.connection: worker for worker in workers}
        answers: dict[int, Any] = {}
        deadline = time.monotonic() + seconds
        while pending:
            left = deadline - time.monotonic()
            ready = [pending[one] for one in wait(list(pending), max(0.0, min(left, TICK_SECONDS)))]
            ready = ready or [worker for worker in pending.values() if worker.has_ended or left <= 0]
            for worker in ready:
                del pending[worker.connection]
                try:
                    if left <= 0 and not worker.has_ended and not worker.connection.poll():
                        raise WorkerError(f"{worker} did not answer within {seconds:g} s")
                    answers[worker.number] = worker.receive()
                except (FaultyEnvError, WorkerError) as error:
                    if not collect:
                        self._is_broken = True
                        raise
                    answers[worker.number] = error
        return [answers[worker.number] for worker in workers]

    def _replace(self, worker: Worker, problem: Exception, reset: np.ndarray | None = None) -> Any:
        """Start a worker again and make its environments, and reset them if `reset` has the flags of `Copies.reset`."""
        while True:
            worker.failures += 1
            if not self._settings.restart or worker.failures > MAX_FAILURES:
                self._is_broken = True
                raise problem
            self.restarts += 1
            warnings.warn(f"{worker} is replaced: {problem}", stacklevel=4)
            worker.kill()
            worker.start()
            try:
                answer = self._ask(worker, "make", self._source, worker.count)
                if reset is None:
                    return answer
                return self._ask(worker, "reset", self._new_seeds(worker), reset)
            except (FaultyEnvError, WorkerError) as error:
                problem = error

    def _ask(self, worker: Worker, command: str, *arguments: Any) -> Any:
        worker.ask(command, *arguments)
        seconds = max(self._settings.timeout, MAKING_SECONDS if command == "make" else 0.0)
        (answer,) = self._answers([worker], seconds, collect=True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _new_seeds(self, worker: Worker) -> list[int]:
        sequences = (np.random.SeedSequence((seed, self.restarts)) for seed in self._seeds[worker.rows])
        return [int(sequence.generate_state(1)[0]) >> 1 for sequence in sequences]

    def _cut_episodes(self, worker: Worker, problem: Exception) -> Row:
        """The row of a replaced worker: running episodes are truncated, and those that ended before start again."""
        resetting = self._ended[worker.rows]
        first = self._replace(worker, problem, reset=~resetting)
        last = _map(self.observation_space, lambda array: array[worker.rows], self._observation)
        observation = _map(self.observation_space, lambda new, old: _choose(resetting, new, old), first, last)
        zeros = np.zeros(worker.count)
        return Row(observation, zeros, zeros > 0, ~resetting, None, None, None)


def join(space: Space, batches: Sequence[Any]) -> Any:
    """Concatenate batches of observations."""
    return _map(space, lambda *arrays: np.concatenate(arrays), *batches)


def _map(space: Space, function: Callable[..., np.ndarray], *batches: Any) -> Any:
    """Apply a function to every array of structured batches."""
    if isinstance(space, Dict):
        return {key: _map(part, function, *(batch[key] for batch in batches)) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_map(part, function, *parts) for part, *parts in zip(space.spaces, *batches, strict=True))
    return function(*batches)


def _choose(mask: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    return np.where(mask.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _join_rows(space: Space, rows: Sequence[Row]) -> Row:
    """Join the rows of the workers. The row of a replaced worker has no points, and its games end with it."""

    def joined(name: str, missing: Callable[[Row], np.ndarray]) -> np.ndarray | None:
        values = [getattr(row, name) for row in rows]
        if all(value is None for value in values):
            return None
        return np.concatenate(
            [missing(row) if value is None else value for row, value in zip(rows, values, strict=True)]
        )

    return Row(
        join(space, [row.observation for row in rows]),
        np.concatenate([row.reward for row in rows]),
        np.concatenate([row.terminated for row in rows]),
        np.concatenate([row.truncated for row in rows]),
        joined("score", lambda row: np.zeros(len(row.reward), np.float32)),
        joined("game_over", lambda row: row.truncated),
        joined("success", lambda row: np.zeros(len(row.reward), bool)),
    )
