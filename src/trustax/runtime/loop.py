"""The training loop of every run.

It creates the environments, restores a checkpoint, runs the iterations, logs them and saves. `trustax.training` has the
public functions.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import jax

from trustax.cli.progress import Terminal
from trustax.envs import CompiledEnvironment, Environment, HostEnvironment, make
from trustax.envs.engines import engine_of, make_with_workers, observes_images
from trustax.envs.workers import IN_PROCESS, Workers
from trustax.errors import TrustaxError
from trustax.ops.metrics import SKIPPED, SPEED, STEP, Record
from trustax.run import Run
from trustax.runtime.collect import RolloutStopped
from trustax.runtime.devices import configure_devices
from trustax.runtime.distributed import Distributed, Group, joined
from trustax.runtime.divergence import divergence_of, skipped_so_far
from trustax.runtime.env_shards import check_env_shards
from trustax.runtime.gathering import merged, part_of
from trustax.runtime.interrupt import Interrupted, InterruptGuard
from trustax.runtime.iteration import Iteration
from trustax.runtime.state import restart_environment, start
from trustax.runtime.train_step import Seconds, StepResult, TrainStep
from trustax.storage.journal import Journal
from trustax.storage.lock import Claim, locked
from trustax.storage.loggers import Logger, Loggers
from trustax.storage.mirror import Mirror
from trustax.storage.object_store import is_url
from trustax.storage.run_directory import RunDirectory


class TrainingLoop:
    """The resources of a run while it trains: a context manager, and an iterable of iterations.

    Leaving the context before the end of the run, by `break` or by an error in the caller, saves the last iteration.
    With `lease`, a later attempt on another machine takes over the run, and this one stops (see `storage/lease.py`).
    With a URL as `run_dir`, the run trains in a temporary folder and is copied to its store (see `storage/mirror.py`).
    With `distributed`, this process trains some of the learners, in step with other processes.
    """

    def __init__(
        self,
        run: Run,
        env: Environment | None = None,
        *,
        run_dir: str | Path | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 60.0,
        quiet: bool = False,
        loggers: Sequence[str | Logger] | None = None,
        traced: Sequence[str] = (),
        lease: bool = False,
        workers: Workers = IN_PROCESS,
        distributed: Distributed | None = None,
    ) -> None:
        if distributed is not None and is_url(run_dir):
            raise TrustaxError(f"a distributed run needs a run_dir on a shared file system, not the URL {run_dir}")
        self.run = run
        self._workers = workers
        self._mirror = Mirror(run_dir, resume)
        self.run_dir = self._mirror.folder
        self.records: Sequence[Record] = []
        self._env = run.env_id if env is None else env
        self._resume = resume
        self._checkpoint_seconds = checkpoint_seconds
        self._quiet = quiet
        self._loggers = Loggers(loggers, self.run_dir)
        self._traced = traced
        self._lease = lease
        self._distributed = distributed
        self._claim: Claim | None = None
        self._stack = ExitStack()
        self._is_saved = True
        self._is_stopped = False

    def __enter__(self) -> "TrainingLoop":
        run = self.run
        if not self._resume:
            _require_one_iteration(run)
        with self._stack as stack:
            self.group = stack.enter_context(joined(self._distributed, run))
            self._own_run = own = self.group.part_of(run)
            num_devices = max(own.num_seeds, run.env_shards // self.group.num_processes)
            configure_devices(num_devices, large_network=observes_images(run.env_id))
            self._guard = stack.enter_context(InterruptGuard())
            stack.enter_context(self._mirror)
            if self.run_dir is not None and self.group.is_first:
                self._claim = stack.enter_context(locked(self.run_dir, lease=self._lease))
            self._environment = _make_environment(own, self._env, self._workers)
            stack.callback(self._environment.close)
            check_env_shards(run, self._environment, self.group.num_processes)
            self._directory = RunDirectory(self.run_dir, run, self._environment, self._checkpoint_seconds, self.group)
            self._directory.open(self._resume)
            self.state = start(own, self._environment)
            if self._resume:
                self.state = self._directory.restore(self.state)
            self.timesteps = int(self.state.iteration) * run.batch_size
            self._start_logging(stack)
            self._stack = stack.pop_all()
        return self

    def _start_logging(self, stack: ExitStack) -> None:
        """Open the journal, the loggers and the progress bar; of a distributed run, only process 0 has them."""
        run, is_first = self.run, self.group.is_first
        resume_at = self.timesteps if self._resume else None
        self._journal = stack.enter_context(Journal(self.run_dir if is_first else None, resume_at, run.batch_size))
        self.records = self._journal.records
        self._terminal = stack.enter_context(_make_terminal(run, self.timesteps, self._quiet or not is_first))
        if not is_first:
            return
        stack.callback(self._loggers.close)
        self._loggers.start(run, resume_at)
        if run.total_timesteps != run.num_iterations * run.batch_size:
            self._terminal.note(_describe_rounding(run))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack as stack:
            # The processes of a distributed run save together, so one that fails cannot save.
            can_save = kind is None or self.group.num_processes == 1
            if (
                not self._is_saved
                and can_save
                and self._directory.should_save(int(self.state.iteration), stopping=True)
            ):
                self._save()
            self._stack = stack.pop_all()
        self._stack.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Iteration]:
        run = self.run
        if int(self.state.iteration) >= run.num_iterations:
            return
        # Alone, a rollout can be stopped in the middle; several processes stop after the same iteration.
        is_alone = self.group.num_processes == 1
        step = TrainStep(self._own_run, self._environment, self._traced, lambda: is_alone and self._guard.requested)
        with self._terminal.timed(f"compiling for {step.placement}"):
            self.state = step.compile(self.state)
            self._whole = step.placement.whole
        if self.group.agree(self._guard.requested):
            raise Interrupted(self._directory.resume_hint(self.timesteps))
        start_time = time.perf_counter()
        for number in range(int(self.state.iteration) + 1, run.num_iterations + 1):
            old_policy = jax.device_get(self.state.learner.policy) if self._traced else None
            try:
                result = step(self.state, run.num_iterations)
            except RolloutStopped:
                self._stop(number - 1)
            self._is_saved = True  # a state that does not pass its checks must not be saved
            self.state = result.state
            should_save = self._record(result, number, time.perf_counter() - start_time)
            self._is_saved = False
            is_last = number == run.num_iterations
            checkpoint = self._save() if is_last or should_save else None
            yield Iteration(
                run,
                number,
                self.records,
                self.state,
                self.run_dir,
                checkpoint,
                result.series,
                old_policy,
                self._group_of_learners,
            )
            if self._should_stop() and not is_last:
                self._stop(number)
            if self._directory.should_restart(number) and not is_last:
                self.state = step.place(restart_environment(self._own_run, self.state, self._environment))

    def _stop(self, number: int) -> NoReturn:
        """Save the last complete iteration, if it is not saved yet, and leave the loop."""
        if not self._is_saved and self._directory.should_save(number, stopping=True):
            self._save()
        raise Interrupted(self._directory.resume_hint(self.timesteps))

    @property
    def _group_of_learners(self) -> Group:
        """The processes that have learners of their own: if each has all of them, process 0 speaks for all."""
        return Group() if self.group.divides_envs else self.group

    def agree_to_end(self, wanted: bool) -> bool:
        """Whether any process of a distributed run wants to end it after this iteration; every process must ask."""
        answers = self.group.gather([bool(wanted), self._guard.requested])
        self._is_stopped = any(signaled for _, signaled in answers)
        return any(ending for ending, _ in answers)

    def _should_stop(self) -> bool:
        """Whether a signal has stopped the run; the processes of a distributed run have agreed on it."""
        return self._guard.requested if self.group.num_processes == 1 else self._is_stopped

    def _record(self, result: StepResult, number: int, elapsed: float) -> bool:
        """Record the metrics of all processes, and decide together whether to save."""
        restarts = getattr(self._environment, "restarts", 0) if self._workers.restart else None
        should_save = self._directory.should_save(number, stopping=False)
        has_learners = self.group.is_first or not self.group.divides_envs
        own = part_of(result, restarts, self._guard.requested, should_save, has_learners)
        whole = merged(self.group.gather(own))
        _require_usable(whole.fault, self._directory)
        self._check_claim()
        times = _time_metrics(self.run, number, whole.seconds, elapsed)
        self._journal_record(times | whole.metrics, whole.causes)
        self.timesteps = self.records[-1][STEP]
        self._terminal.update(self.records[-1])
        return whole.save or (whole.stop and self._directory.should_save(number, stopping=True))

    def _journal_record(self, record: Record, causes: list[int]) -> None:
        """Write and log a record, and check for divergence, in process 0; the others only keep the newest record."""
        if not self.group.is_first:
            self._journal = Journal(None)
            self._journal.record(record)
            self.records = self._journal.records
            return
        self._journal.record(record | {SKIPPED: skipped_so_far(self.records, causes)})
        self._loggers.log(self.records[-1])
        if error := divergence_of(self.records, causes, self.run.num_iterations):
            raise TrustaxError(error + self._directory.checkpoint_hint())

    def _save(self) -> Path | None:
        self._is_saved = True
        self._check_claim()
        saved = self._directory.save(self._whole(self.state), before=self._journal.sync)
        self._mirror.checkpoint()
        return saved

    def _check_claim(self) -> None:
        if self._claim is not None:
            self._claim.check()


def _require_one_iteration(run: Run) -> None:
    """Refuse an iteration that is longer than the run: a horizon given by mistake may take hours."""
    if run.total_timesteps < run.batch_size:
        raise TrustaxError(
            f"total_timesteps is {run.total_timesteps:,}, but one iteration has num_envs * horizon = {run.num_envs:,} "
            f"* {run.horizon:,} = {run.batch_size:,} steps; lower horizon, or raise total_timesteps to at least that"
        )


def _describe_rounding(run: Run) -> str:
    steps = run.num_iterations * run.batch_size
    return (
        f"total_timesteps {run.total_timesteps:,} is rounded to {steps:,}: {run.num_iterations:,} iterations of "
        f"{run.batch_size:,} steps"
    )


def _make_terminal(run: Run, timesteps: int, quiet: bool) -> Terminal:
    seeds = f" × {run.num_seeds} seeds" if run.num_seeds > 1 else ""
    return Terminal(
        run.num_iterations * run.batch_size,
        f"{run.algorithm_name} on {run.env_id}{seeds}",
        quiet=quiet,
        initial_timesteps=timesteps,
        num_seeds=run.num_seeds,
    )


def _make_environment(run: Run, env: Environment, workers: Workers) -> CompiledEnvironment | HostEnvironment:
    """Create the environments. If EnvPool must restart, it is stepped from Python: compiled code uses only one pool."""
    if workers.number:
        return make_with_workers(env, run.seeds, run.num_envs, workers)
    compiled = run.restart_interval == 0 or engine_of(env) != "envpool"
    return make(env, run.seeds, run.num_envs, compiled)


def _time_metrics(run: Run, iterations: int, seconds: Seconds, elapsed: float) -> Record:
    """Progress, speed, and the share of the time spent in updates and, if measured, in the environments."""
    total = seconds.collect + seconds.learn
    in_environment = (
        {} if seconds.environment is None else {"time/environment_share": round(seconds.environment / total, 3)}
    )
    return {
        "time/iterations": iterations,
        STEP: iterations * run.batch_size,
        SPEED: round(run.num_seeds * run.batch_size / total, 1),
        "time/time_elapsed": round(elapsed, 3),
        "time/update_share": round(seconds.learn / total, 3),
    } | in_environment


def _require_usable(fault: str | None, directory: RunDirectory) -> None:
    """Raise an error if an observation or a reward cannot be used."""
    if fault is not None:
        raise TrustaxError(f"{fault}; check the environment{directory.checkpoint_hint()}")
