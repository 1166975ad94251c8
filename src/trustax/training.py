"""The loop: iterate, record, save; and what a user gets from it."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trustax.agent import Agent
from trustax.algorithms import Algorithm
from trustax.cli.progress import Terminal
from trustax.envs import CompiledEnvironment, Environment, HostEnvironment, make
from trustax.envs.engines import engine_of, observes_images
from trustax.errors import TrustaxError
from trustax.ops.metrics import RETURN, Record, finite_values
from trustax.run import Run
from trustax.runtime.devices import configure_devices
from trustax.runtime.interrupt import Interrupted, InterruptGuard
from trustax.runtime.iteration import Iteration, Seconds
from trustax.runtime.state import RunState, restart_environment, start
from trustax.storage.journal import Journal
from trustax.storage.lock import locked
from trustax.storage.run_directory import RunDirectory, agent_of, as_dict

CURVE_FILE = "curve.png"


@dataclass(frozen=True)
class Result:
    """A finished run: what was measured, and the learners."""

    run: Run
    records: list[Record]
    state: RunState
    run_dir: Path | None = None

    def agent(self, seed: int = 0, policy: str = "policy") -> Agent:
        """The agent of one learner, counted from 0. `policy="virtual"` takes MCPO's ψ instead of θ."""
        return agent_of(self.run, as_dict(self.state), seed, policy)

    def plot(self, path: str | Path) -> None:
        """Draw the learning curve, with its spread over the seeds, as PNG, SVG or PDF."""
        from trustax.plotting.curves import plot_curves  # Matplotlib takes half a second to import

        plot_curves({self.run.algorithm_name: self.records}, Path(path), title=self.run.env_id)


def train(
    algorithm: Algorithm,
    env: Environment,
    *,
    run_dir: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Train an algorithm on an environment; `settings` are the fields of `Run`.

    Without `run_dir` nothing is written. With `resume` a run that was stopped goes on from its last checkpoint.
    """
    env_id = env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    run = Run(algorithm=algorithm, env_id=env_id, **settings)
    return train_run(run, env, run_dir, resume, checkpoint_seconds, quiet)


def train_run(
    run: Run,
    env: Environment | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    quiet: bool = False,
) -> Result:
    """Train what a `Run` defines; `env` is needed where its id alone does not make the environment."""
    configure_devices(run.num_seeds, large_network=observes_images(run.env_id))
    folder = None if run_dir is None else Path(run_dir)
    with InterruptGuard() as guard, nullcontext() if folder is None else locked(folder):
        environment = _make(run, run.env_id if env is None else env)
        try:
            run_directory = RunDirectory(folder, run, environment, checkpoint_seconds)
            run_directory.open(resume)
            state = start(run, environment)
            if resume:
                state = run_directory.restore(state)
            done = int(state.iteration) * run.batch_size
            terminal = Terminal(
                run.num_iterations * run.batch_size,
                f"{run.algorithm_name} on {run.env_id}" + (f" × {run.num_seeds} seeds" if run.num_seeds > 1 else ""),
                quiet=quiet,
                initial_timesteps=done,
                num_seeds=run.num_seeds,
            )
            with Journal(run_directory.folder, done if resume else None) as journal, terminal:
                state = _loop(run, environment, state, journal, terminal, guard, run_directory)
        finally:
            environment.close()
    result = Result(run, journal.records, state, run_directory.folder)
    if run_directory.folder is not None and any(finite_values(record[RETURN]) for record in journal.records):
        result.plot(run_directory.folder / CURVE_FILE)
    return result


def _make(run: Run, env: Environment) -> CompiledEnvironment | HostEnvironment:
    """The environments of a run. Where EnvPool must begin anew, Python steps it: compiled code knows only one pool."""
    compiled = run.restart_interval == 0 or engine_of(env) != "envpool"
    return make(env, run.seeds, run.num_envs, compiled)


def _loop(
    run: Run,
    environment: CompiledEnvironment | HostEnvironment,
    state: RunState,
    journal: Journal,
    terminal: Terminal,
    guard: InterruptGuard,
    run_directory: RunDirectory,
) -> RunState:
    if int(state.iteration) >= run.num_iterations:
        return state
    iterate = Iteration(run, environment)
    with terminal.waiting(f"compiling for {iterate.placement}"):
        state = iterate.compile(state)
    if guard.requested:
        raise Interrupted(run_directory.resume_hint(int(state.iteration) * run.batch_size))
    began = time.perf_counter()
    for number in range(int(state.iteration), run.num_iterations):
        state, metrics, seconds = iterate(state, run.num_iterations)
        values = {name: value.tolist() for name, value in metrics.items()}
        _refuse_what_is_not_finite(values, number, run_directory)
        steps = (number + 1) * run.batch_size
        journal.record(_times(run, number + 1, seconds, time.perf_counter() - began) | values)
        terminal.update(journal.records[-1])
        last = number + 1 == run.num_iterations
        if last or run_directory.is_due(number + 1, stopping=guard.requested):
            run_directory.save(state)
        if guard.requested and not last:
            raise Interrupted(run_directory.resume_hint(steps))
        if run_directory.restarts_at(number + 1) and not last:
            state = iterate.place(restart_environment(state, environment))
    return state


def _times(run: Run, iterations: int, seconds: Seconds, elapsed: float) -> Record:
    """How far and how fast; and the share of the time that learning took, and the environments where it can be told."""
    total = seconds.collect + seconds.learn
    in_environment = (
        {} if seconds.environment is None else {"time/environment_share": round(seconds.environment / total, 3)}
    )
    return {
        "time/iterations": iterations,
        "time/total_timesteps": iterations * run.batch_size,
        "time/fps": round(run.num_seeds * run.batch_size / total, 1),
        "time/time_elapsed": round(elapsed, 3),
        "time/update_share": round(seconds.learn / total, 3),
    } | in_environment


def _refuse_what_is_not_finite(values: dict[str, list[float]], number: int, run_directory: RunDirectory) -> None:
    """Name the first thing that went wrong: what came in, before what became of it."""
    for name in ("observation", "reward"):
        if not all(values.pop(f"finite/{name}")):
            raise TrustaxError(
                f"the environment returned a {name} that is not finite in iteration {number + 1}; "
                f"check the environment{run_directory.last_good()}"
            )
    losses = values.get("train/loss", [])
    if not np.all(np.isfinite(losses)):
        seeds = np.flatnonzero(~np.isfinite(losses)).tolist()
        raise TrustaxError(
            f"the loss of learner {', '.join(map(str, seeds))} is not finite in iteration {number + 1}; "
            f"try a smaller learning_rate{run_directory.last_good()}"
        )
