"""Gymnasium environments, registered or made by a callable, stepped from Python."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np

from trustax.envs.base import environment_seed
from trustax.envs.errors import FaultyEnvError
from trustax.envs.gymnasium_spaces import spec_of, to_batch
from trustax.envs.making import family_of, make_copies, name_of
from trustax.envs.stepping import Copies, Row
from trustax.envs.worker_handle import WorkerError
from trustax.envs.workers import IN_PROCESS, WorkerCopies, Workers
from trustax.errors import TrustaxError
from trustax.ops.observations import flatten
from trustax.types import TimeStep


class GymnasiumHost:
    """Gymnasium environments, stepped in this process or in worker processes: a `HostEnvironment`."""

    _copies: Copies | WorkerCopies

    def __init__(
        self,
        env: str | Callable[[], gymnasium.Env],
        seeds: Sequence[int],
        num_envs: int,
        wrapper: Callable[[gymnasium.Env], gymnasium.Env] = lambda env: env,
        workers: Workers = IN_PROCESS,
    ) -> None:
        self._env = env
        self._workers = workers
        self._name = name_of(env)
        self._seeds = seeds
        self._axes = (len(seeds), num_envs)
        self._start, self._num_steps = 0, 0
        count = len(seeds) * num_envs
        with self._named_errors():
            if workers.number:
                self._copies = WorkerCopies(env, count, workers)
            else:
                self._copies = Copies([wrapper(copy) for copy in make_copies(env, count)])
        try:
            self.spec = spec_of(self._name, self._copies.observation_space, self._copies.action_space)
        except TrustaxError:
            self.close()
            raise

    def reset(self, start: int = 0) -> np.ndarray:
        self._start, self._num_steps = start, 0
        _, num_envs = self._axes
        seeds = [environment_seed(seed, env, start) for seed in self._seeds for env in range(num_envs)]
        with self._named_errors():
            return self._convert_observation(self._copies.reset(seeds))

    def step(self, action: np.ndarray) -> TimeStep:
        self._num_steps += 1
        space = self._copies.action_space
        with self._named_errors():
            return self._timestep(self._copies.step(to_batch(np.asarray(action), space, space.dtype)))

    def close(self) -> None:
        """Close the environments. A failure is only a warning: it must not hide the result of a run or an error."""
        try:
            self._copies.close()
        except FaultyEnvError as error:
            warnings.warn(f"closing an environment failed: {error}", stacklevel=2)

    @property
    def restarts(self) -> int:
        """How many workers have been replaced."""
        return self._copies.restarts if isinstance(self._copies, WorkerCopies) else 0

    def _timestep(self, row: Row) -> TimeStep:
        return TimeStep(
            self._convert_observation(row.observation),
            self._unflatten(row.reward, "float32"),
            self._unflatten(row.terminated, "bool"),
            self._unflatten(row.truncated, "bool"),
            raw_reward=None if row.score is None else self._unflatten(row.score, "float32"),
            game_over=None if row.game_over is None else self._unflatten(row.game_over, "bool"),
            success=None if row.success is None else self._unflatten(row.success, "bool"),
        )

    def _convert_observation(self, batch: Any) -> np.ndarray:
        parts = self.spec.parts
        return self._unflatten(batch if parts is None else flatten(parts, batch), self.spec.observation_dtype)

    def _unflatten(self, batch: np.ndarray, dtype: str) -> np.ndarray:
        with np.errstate(over="ignore"):  # what does not fit float32 becomes infinite, which the collector reports
            return np.array(batch, dtype).reshape(self._axes + batch.shape[1:])

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn failures into a TrustaxError that names the environment, its index and the step."""
        step = f", step {self._num_steps}" if self._num_steps else ""
        if self._start and step:
            step += f" after the restart at iteration {self._start}"
        try:
            yield
        except FaultyEnvError as error:
            place = place_of(error.index, self._seeds, self._axes[1])
            hint = f"to test it: {check_command(self._env)}"
            raise TrustaxError(f"{self._name}, {place}{step}: {error}; {hint}") from error
        except WorkerError as error:
            hint = "" if self._workers.restart else "; restart_workers=True replaces such workers"
            raise TrustaxError(f"{self._name}{step}: {error}{hint}") from error


def place_of(index: int, seeds: Sequence[int], num_envs: int) -> str:
    """How messages refer to one of `seed x env` environments.

    >>> place_of(3, seeds=[7], num_envs=4), place_of(5, seeds=[7, 8], num_envs=4)
    ('environment 3', 'environment 1 of seed 8')
    """
    of_seed = f" of seed {seeds[index // num_envs]}" if len(seeds) > 1 else ""
    return f"environment {index % num_envs}{of_seed}"


def check_command(env: str | Callable[[], gymnasium.Env]) -> str:
    """How to check an environment: by a command if a new process can make it, else in Python.

    >>> check_command("CartPole-v1")
    'trustax check gymnasium:CartPole-v1'
    """
    if not isinstance(env, str):
        return f"tx.check({name_of(env)})" if name_of(env).isidentifier() else "tx.check, with the same callable"
    code = getattr(gymnasium.registry.get(env), "entry_point", "")
    is_found = ":" in env or family_of(env) is not None or str(code).startswith("gymnasium.")
    return f"trustax check gymnasium:{env}" if is_found else f"tx.check('gymnasium:{env}')"
