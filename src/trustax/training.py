"""Training: `iterations` yields every iteration of a run; `train` runs it to the end and calls callbacks."""

import atexit
import sys
import weakref
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trustax.agent import Agent
from trustax.algorithms import ALGORITHMS, Algorithm
from trustax.envs import Environment
from trustax.envs.engines import env_id_of
from trustax.envs.errors import one_line
from trustax.envs.workers import Workers
from trustax.errors import TrustaxError, refuse_unknown
from trustax.ops.metrics import RETURN, finite_values
from trustax.run import Run
from trustax.runtime.callbacks import Callback, Callbacks, Evaluate, callback_from_text
from trustax.runtime.distributed import Distributed
from trustax.runtime.interrupt import Interrupted
from trustax.runtime.iteration import Iteration
from trustax.runtime.loop import TrainingLoop
from trustax.runtime.result import Result
from trustax.runtime.state import is_deleted
from trustax.settings.checked import settings_of_class
from trustax.storage.journal import read_records
from trustax.storage.loggers import Logger
from trustax.storage.object_store import copy_to_store, is_url
from trustax.storage.records import EVALUATIONS_FILE

CURVE_FILE = "curve.png"
OPTIONS = (
    "run_dir",
    "resume",
    "checkpoint_seconds",
    "quiet",
    "callbacks",
    "loggers",
    "num_workers",
    "worker_timeout",
    "restart_workers",
    "distributed",
)
"""Arguments of `train` that are not settings of a `Run`."""


def train(
    algorithm: Algorithm | Run | str,
    env: Environment | None = None,
    *,
    total_timesteps: int | float = Run.total_timesteps,
    num_seeds: int = Run.num_seeds,
    seed: int = Run.seed,
    num_envs: int = Run.num_envs,
    horizon: int = Run.horizon,
    normalize_observations: bool = Run.normalize_observations,
    normalize_rewards: bool = Run.normalize_rewards,
    bootstrap_truncation: bool = Run.bootstrap_truncation,
    restart_interval: int = Run.restart_interval,
    env_shards: int = Run.env_shards,
    start_from: str | Path = Run.start_from,
    run_dir: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    quiet: bool = False,
    callbacks: Iterable[Callback] | Callback = (),
    loggers: Sequence[str | Logger] | None = None,
    num_workers: int = 0,
    worker_timeout: float = 60.0,
    restart_workers: bool = False,
    distributed: Distributed | None = None,
    **unknown: Any,
) -> Result:
    """Train an algorithm on an environment, or train a `Run`, which defines both.

    Args:
        algorithm: for example `MCPO(memory_size=10)`, or a name such as "mcpo" for the default settings; or a `Run`,
            which has all settings up to `start_from`.
        env: the id of an environment, a callable that creates a Gymnasium environment, or a `JaxEnv`.
        total_timesteps: environment steps per seed, rounded down to complete iterations.
        num_seeds: number of independent learners, trained in parallel.
        seed: seed of the first learner; the others use the seeds that follow.
        num_envs: number of environments per learner.
        horizon: steps per environment in one iteration.
        normalize_observations: standardize observations with running statistics.
        normalize_rewards: divide rewards by the running standard deviation of the discounted return.
        bootstrap_truncation: bootstrap from the value of the last state at a time limit.
        restart_interval: iterations between restarts of environments that cannot be saved; 0 means never.
        env_shards: number of devices that share the environments of each learner; the results depend on it.
        start_from: the agent whose policy all learners start from, as `load` takes it: the folder of an agent or a run,
            "zoo:ppo/Hopper-v5" or "hf://user/name".
        run_dir: the folder of the run, or its URL in an object store, for example "s3://bucket/runs/x"; without it,
            nothing is written.
        resume: continue the run in `run_dir` from its newest checkpoint, or start it if there is none.
        checkpoint_seconds: seconds between checkpoints.
        quiet: do not show progress.
        callbacks: one or several callables `f(iteration)`, or objects with any of `on_start`, `on_resume`,
            `on_iteration`, `on_checkpoint`, `on_stop` and `on_end`, or strings as on the command line, such as
            "evaluate:interval=5". If one returns True after an iteration, the run is saved and stops; it can be
            resumed.
        loggers: names of loggers, or objects; by default TensorBoard if there is a `run_dir`.
        num_workers: processes that step Gymnasium environments in parallel, with the same results; 0 means none.
        worker_timeout: seconds after which a worker process that does not answer counts as failed.
        restart_workers: replace a worker process that fails, and count its episodes as truncated, instead of raising
            an error.
        distributed: the other processes that train this run, each with its own share of the seeds; all of them call
            `train` with the same arguments and a `run_dir` that they share.
    """
    settings = {
        "total_timesteps": total_timesteps,
        "num_seeds": num_seeds,
        "seed": seed,
        "num_envs": num_envs,
        "horizon": horizon,
        "normalize_observations": normalize_observations,
        "normalize_rewards": normalize_rewards,
        "bootstrap_truncation": bootstrap_truncation,
        "restart_interval": restart_interval,
        "env_shards": env_shards,
        "start_from": _as_text(start_from),
    }
    run = _make_run(algorithm, env, settings, unknown)
    several = callbacks if isinstance(callbacks, Iterable) and not isinstance(callbacks, str) else [callbacks]
    hooks = Callbacks(callback_from_text(one) if isinstance(one, str) else one for one in several)
    loop = TrainingLoop(
        run,
        env,
        run_dir=run_dir,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        quiet=quiet,
        loggers=loggers,
        workers=Workers(num_workers, worker_timeout, restart_workers),
        distributed=distributed,
    )
    try:
        hooks = _run(loop, hooks)
    except Interrupted as stopped:
        _attach_result(stopped, loop)
        raise
    result = _result(loop, run_dir)
    hooks.end(result)
    return result


def _run(loop: TrainingLoop, hooks: Callbacks) -> Callbacks:
    """Run a loop to its end, or until a callback stops it. Returns the callbacks that this process has called."""
    with loop:
        hooks = hooks.of_process(loop.group)
        hooks.start(loop.run, loop.run_dir, loop.timesteps)
        if loop.timesteps:
            _note_missing_evaluations(loop, hooks)
            hooks.resume(loop.restored())
        try:
            for iteration in loop:
                if iteration.checkpoint is not None:
                    hooks.checkpoint(iteration)
                if loop.decisions.agree_to_end(hooks.iteration(iteration)):
                    _stop(loop, hooks, iteration)
                    break
        except Interrupted:
            if loop.stopped_at is not None:
                hooks.checkpoint(loop.stopped_at)
            raise
    return hooks


def _note_missing_evaluations(loop: TrainingLoop, hooks: Callbacks) -> None:
    """A run does not store its callbacks, so a resume may forget them."""
    if loop.run_dir is not None and (loop.run_dir / EVALUATIONS_FILE).exists() and not hooks.have(Evaluate):
        loop.note("it was evaluated before, but not in this resume; callbacks must be given again")


def _stop(loop: TrainingLoop, hooks: Callbacks, iteration: Iteration) -> None:
    """Save the iteration after which a callback stops the run, and tell all callbacks."""
    last = loop.saved(iteration)
    if last.checkpoint is not None and iteration.checkpoint is None:
        hooks.checkpoint(last)
    if not last.is_last:
        hooks.stop(last)


def _attach_result(stopped: Interrupted, loop: TrainingLoop) -> None:
    """Keep the agents of an interrupted run, also if it has no folder."""
    if loop.timesteps and not is_deleted(loop.state):
        stopped.result = Result(loop.run, loop.records, loop.state, loop.run_dir, loop.group)
        stopped.add_note("The `result` of this exception has the agents so far; in a notebook: sys.last_value.result")


def _result(loop: TrainingLoop, run_dir: str | Path | None) -> Result:
    """The result of a loop that has ended; the first process of a run plots its learning curve."""
    result = Result(loop.run, loop.records, loop.state, loop.run_dir, loop.group)
    if result.run_dir is None:
        return result
    if not loop.group.is_first:
        return replace(result, records=read_records(result.run_dir))
    if any(finite_values(record.get(RETURN)) for record in result.records):
        _draw_curve(result, result.run_dir / CURVE_FILE, run_dir)
    return result


def _draw_curve(result: Result, path: Path, run_dir: str | Path | None) -> None:
    """Draw the learning curve. If that fails, the run is complete all the same, so it is only a warning."""
    try:
        result.plot(path)
        if is_url(run_dir):
            copy_to_store(path, str(run_dir))
    except (TrustaxError, RuntimeError, OSError) as error:
        print(f"warning: no {CURVE_FILE}: {one_line(error)}", file=sys.stderr)


def iterations(
    run: Run,
    env: Environment | None = None,
    *,
    run_dir: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    quiet: bool = True,
    loggers: Sequence[str | Logger] | None = None,
    traced: Sequence[str] = (),
    num_workers: int = 0,
    worker_timeout: float = 60.0,
    restart_workers: bool = False,
    **unknown: Any,
) -> Generator[Iteration]:
    """Train a `Run` and yield every iteration.

    The caller may inspect an iteration, get an agent from it, or stop training by leaving the loop; with a `run_dir`,
    the last iteration is then saved. A caller that keeps the iterator in a variable ends the run with its `close()`;
    the end of the program does so too. `traced` names metrics to return for every update. The other arguments are as
    in `train`.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(num_minibatches=4), env_id="CartPole-v1", horizon=128, total_timesteps=1024)
    >>> [iteration.timesteps for iteration in iterations(run)]
    [512, 1024]
    """
    known = ["env", "traced", *(name for name in OPTIONS if name not in ("callbacks", "distributed"))]
    refuse_unknown("iterations", unknown, known, settings_of_class(Run), "a setting of the Run")
    if not isinstance(run, Run):
        raise TrustaxError(
            f"iterations takes a Run, such as Run(algorithm=PPO(), env_id='CartPole-v1'), not a {type(run).__name__}"
        )
    if isinstance(traced, str):
        raise TrustaxError(f"traced must be a list of names of metrics, such as [{traced!r}], not {traced!r}")
    loop = TrainingLoop(
        run,
        env,
        run_dir=run_dir,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        quiet=quiet,
        loggers=loggers,
        traced=traced,
        workers=Workers(num_workers, worker_timeout, restart_workers),
    )
    generator = _iterate(loop)
    atexit.register(_close, weakref.ref(generator))
    return generator


def _iterate(loop: TrainingLoop) -> Generator[Iteration]:
    with loop:
        yield from loop


def _close(reference: weakref.ref[Generator[Iteration]]) -> None:
    """Close a generator that the program has kept until its end; Python itself closes it too late to save."""
    if (generator := reference()) is not None:
        generator.close()


def _make_run(
    algorithm: Algorithm | Run | str, env: Environment | None, settings: dict[str, Any], unknown: dict[str, Any]
) -> Run:
    if isinstance(algorithm, str):
        algorithm = ALGORITHMS.find(algorithm)()
    own = [] if isinstance(algorithm, Run) else settings_of_class(type(algorithm))
    refuse_unknown("train", unknown, ["env", *settings, *OPTIONS], own, "a setting of the algorithm")
    if isinstance(algorithm, Run):
        changed = [name for name, value in settings.items() if value != getattr(Run, name)]
        if changed:
            raise TrustaxError(
                f"{changed[0]} is a setting of the Run; change it with dataclasses.replace(run, {changed[0]}=...)"
            )
        return algorithm
    if env is None:
        raise TrustaxError("train needs an environment, for example 'CartPole-v1'")
    return Run(algorithm=algorithm, env_id=env_id_of(env), **settings)


def _as_text(start_from: str | Path) -> str:
    """The agent to start from, as `run.json` stores it."""
    if isinstance(start_from, Agent):
        raise TrustaxError("start_from must be a path, which a resumed run can read: agent.save(path) writes one")
    return str(start_from)
