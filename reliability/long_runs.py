"""R16: long runs, and many runs in one process: memory stays, nothing is compiled again, the speed is steady."""

import gc
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import trustax as tx
from reliability.determinism import algorithm
from reliability.rows import Row

MOST_GROWTH = 0.02
MOST_DRIFT = 0.05
ENOUGH_FOR_SPEED = 50_000
"""Iterations; the speed of a shorter run says little."""
COMPILATION = "/jax/core/compile/backend_compile_duration"


def check(full: bool) -> Row:
    row = Row("R16", "100,000 iterations, and 200 runs in one process: memory, compilations and speed")
    _many_iterations(row, 100_000 if full else 2_000)
    _many_runs(row, 200 if full else 10)
    return row


def resident() -> int:
    """Memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _many_iterations(row: Row, iterations: int) -> None:
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **_: compiled.append(event) if event == COMPILATION else None
    )
    run = tx.Run(
        algorithm=algorithm("ppo", num_epochs=1, num_minibatches=1),
        env_id="native:CartPole-v1",
        num_envs=1,
        horizon=8,
        total_timesteps=8 * iterations,
    )
    memory, seconds = [], []
    last = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for iteration in tx.iterations(run, run_dir=Path(folder) / "run"):
            if iteration.number == 2:
                compiled.clear()
            if iteration.number % (iterations // 20) == 0:
                seconds.append(time.perf_counter() - last)
                memory.append(resident())
                last = time.perf_counter()
    with row.trial("compilations after the second iteration"):
        assert not compiled, f"{len(compiled)} programs were compiled"
    with row.trial("memory of a long run"):
        _assert_steady_memory(memory)
    if iterations < ENOUGH_FOR_SPEED:
        row.not_run = "speed, which needs a long run on a quiet machine"
        return
    with row.trial("speed of a long run"):
        first, second = np.median(seconds[2:11]), np.median(seconds[11:])
        assert second / first < 1 + MOST_DRIFT, f"the second half took {second / first:.3f} times as long"


def _many_runs(row: Row, runs: int) -> None:
    settings: dict[str, Any] = {"num_envs": 1, "horizon": 8, "total_timesteps": 32, "quiet": True}
    memory = []
    for number in range(runs):
        tx.train(algorithm("ppo", num_epochs=1, num_minibatches=1), "native:CartPole-v1", seed=number, **settings)
        if number % max(1, runs // 20) == 0:
            memory.append(resident())
    with row.trial(f"memory of {runs} runs in one process"):
        _assert_steady_memory(memory)


def _assert_steady_memory(memory: list[int]) -> None:
    """The memory after the first tenth, which is for warming up, and at the end."""
    warm, end = memory[len(memory) // 10 + 1], memory[-1]
    megabytes = [round(one / 1e6) for one in (warm, end)]
    assert end / warm < 1 + MOST_GROWTH, f"{megabytes[0]} MB after warming up, {megabytes[1]} MB at the end"


CHECKS = {"R16": check}
