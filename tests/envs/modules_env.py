"""An environment that says whether its process has imported JAX; this module imports only Gymnasium and NumPy."""

import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class ModulesEnv(gymnasium.Env):
    """Noise, and episodes that end at random or after six steps."""

    observation_space = spaces.Dict(has_jax=spaces.Discrete(2), noise=spaces.Box(-np.inf, np.inf, (3,)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def observe(self) -> Any:
        return {"has_jax": int("jax" in sys.modules), "noise": self.np_random.normal(size=3).astype(np.float32)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        over = bool(self.np_random.uniform() < 0.2)
        return self.observe(), self.np_random.normal() + action, over, self.time > 5, {"is_success": over}


class StoppedEnv(ModulesEnv):
    """Stops its job in the 70th step, as systemd and SLURM do: all processes get SIGTERM, this worker first."""

    num_steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.num_steps += 1
        if self.num_steps == 70:
            for process in (os.getpid(), os.getppid()):
                os.kill(process, signal.SIGTERM)
        return super().step(action)


class ForkingEnv(ModulesEnv):
    """Ends a process that it has forked when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=True)
        self.child.start()

    def close(self) -> None:
        self.child.terminate()
        self.child.join()
