"""An environment that fails once, in a way and at a place of choice; worker processes import only this module."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

FAULTS = ("exception", "exit", "kill", "hang")
PLACES = ("step", "reset", "close")
FAILING_STEP = 7
EPISODE = 5


class FailingEnv(gymnasium.Env):
    """Episodes of five steps. The first copy that comes to its failing place fails there, and no other copy does.

    The folder gets one file for each process, named after it, and the file `failed` at the moment of the failure.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault: str, place: str, folder: Path) -> None:
        self._fault, self._place, self._folder = fault, place, folder
        self._steps, self._time = 0, 0
        (folder / str(os.getpid())).touch()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._fail_in("reset")
        self._time = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps, self._time = self._steps + 1, self._time + 1
        if self._steps == FAILING_STEP:
            self._fail_in("step")
        return self._observe(), 1.0, self._time == EPISODE, False, {}

    def close(self) -> None:
        self._fail_in("close")

    def _observe(self) -> np.ndarray:
        return np.array([self.np_random.uniform(), self._time], np.float32)

    def _fail_in(self, place: str) -> None:
        if place != self._place:
            return
        try:
            (self._folder / "failed").touch(exist_ok=False)
        except FileExistsError:
            return
        if self._fault == "exception":
            raise RuntimeError("the arm is stuck")
        if self._fault == "exit":
            os._exit(3)
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)
