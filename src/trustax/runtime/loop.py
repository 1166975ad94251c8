"""The training loop of every run.

It creates the environments, restores a checkpoint, runs the iterations, logs them and saves. `trustax.training` has the
public functions.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import jax

from trustax.agent import Agent
from trustax.envs import Environment
from trustax.envs.base import CompiledEnvironment, HostEnvironment
from trustax.envs.engines import engine_of, make_for_training, observes_images
from trustax.envs.workers import IN_PROCESS, Workers
from trustax.errors import TrustaxError
from trustax.ops.metrics import ELAPSED, RESTARTS, STEP, SUCCESS, Record
from trustax.run import Run
from trustax.runtime.collect import RolloutStopped
from trustax.runtime.decisions import Decisions
from trustax.runtime.devices import configure_devices
from trustax.runtime.distributed import Distributed, joined
from trustax.runtime.env_shards import check_env_shards
from trustax.runtime.interrupt import Interrupted, InterruptGuard
from trustax.runtime.iteration import Iteration
from trustax.runtime.run_files import RunFiles, claimed
from trustax.runtime.run_log import open_log
from trustax.runtime.state import is_deleted, is_resumable, restart_environment, start
from trustax.runtime.train_step import StepResult, TrainStep
from trustax.runtime.warm_start import require_fit
from trustax.storage.history import checkpoint_path
from trustax.storage.loading import load
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
        if not resume:
            run.require_one_iteration()
        if isinstance(env, str) and env != run.env_id:
            raise TrustaxError(
                f"the Run trains on {run.env_id}, not on {env}; dataclasses.replace(run, env_id=...) changes it"
            )
        self.run = run
        self._env = run.env_id if env is None else env
        self._workers = workers
        self._mirror = Mirror(run_dir, resume)
        self.run_dir = self._mirror.folder
        self._resume = resume
        self._lease = lease
        self._checkpoint_seconds = checkpoint_seconds
        self._quiet = quiet
        self._loggers = Loggers(loggers, self.run_dir)
        self._traced = traced
        self._distributed = distributed
        self.timesteps = 0
        self.stopped_at: Iteration | None = None
        """the iteration that was saved because a signal stopped the run"""
        self._stack = ExitStack()

    def __enter__(self) -> "TrainingLoop":
        run = self.run
        with self._stack as stack:
            self._engine = engine_of(self._env)
            self.group = stack.enter_context(joined(self._distributed, run, self._engine))
            self._own_run = own = self.group.part_of(run)
            self.decisions = Decisions(self.group, stack.enter_context(InterruptGuard()))
            claim = stack.enter_context(claimed(self._mirror, self.group, self._lease))
            self._environment = self._make_environment(stack)
            check_env_shards(run, self._environment, self.group.num_processes)
            directory = RunDirectory(
                self.run_dir, run, self._environment, self._checkpoint_seconds, self.group, self._engine
            )
            directory.open(self._resume)
            self._files = RunFiles(directory, claim, self._mirror)
            self.state = start(own, self._environment, self._initial_agent(directory))
            if self._resume:
                self.state = directory.restore(self.state)
            self._restarts_first = directory.has_checkpoint and not is_resumable(self._environment)
            self.timesteps = int(self.state.iteration) * run.batch_size
            log = open_log(
                run,
                self.run_dir,
                self._loggers,
                timesteps=self.timesteps,
                resume=self._resume,
                quiet=self._quiet,
                is_first=self.group.is_first,
            )
            self._log = stack.enter_context(log)
            last = self.records[-1] if self.records else {}
            self._elapsed_before, self._restarts_before = last.get(ELAPSED, 0.0), last.get(RESTARTS, 0)
            self._stack = stack.pop_all()
        return self

    def _make_environment(self, stack: ExitStack) -> CompiledEnvironment | HostEnvironment:
        """Make the environments and configure the devices, which depend on whether observations are images.

        Gymnasium environments are made first, because their observations are not known before; the others need devices.
        """
        own, restarts = self._own_run, self.run.restart_interval > 0
        num_devices = max(own.num_seeds, self.run.env_shards // self.group.num_processes)
        is_in_python = self._engine == "gymnasium"
        if not is_in_python:
            configure_devices(num_devices, large_network=observes_images(self._env))
        environment = make_for_training(self._env, own.seeds, own.num_envs, self._workers, restarts)
        stack.enter_context(closing(environment))
        if is_in_python:
            configure_devices(num_devices, large_network=environment.spec.is_image)
        return environment

    def _initial_agent(self, directory: RunDirectory) -> Agent | None:
        """The agent to start from; a run that has a checkpoint does not need it."""
        if not self.run.start_from or directory.has_checkpoint:
            return None
        agent = load(self.run.start_from)
        require_fit(self.run, self._environment.spec, agent)
        return agent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack as stack:
            # The processes of a distributed run save together, so one that fails cannot save.
            if kind is None or self.group.num_processes == 1:
                self._save_last(is_chosen=kind is None or kind is GeneratorExit)
            self._stack = stack.pop_all()
        self._stack.__exit__(kind, error, trace)

    def note(self, text: str) -> None:
        """Show a remark about the run."""
        self._log.terminal.note(text)

    @property
    def records(self) -> Sequence[Record]:
        """The metrics of all iterations so far; a process that has no log only has those of the newest one."""
        return self._log.records

    def __iter__(self) -> Iterator[Iteration]:
        first, last = int(self.state.iteration) + 1, self.run.num_iterations
        if first > last:
            return
        if self._restarts_first:
            self._restarts_first = False
            self.state = restart_environment(self._own_run, self.state, self._environment)
        self._compile()
        start_time = time.perf_counter() - self._elapsed_before
        for number in range(first, last + 1):
            yield self._advance(number, start_time)
            if number < last and self.decisions.should_stop():
                self._stop()
            if number < last and self._files.directory.should_restart(number):
                self.state = self._step.place(restart_environment(self._own_run, self.state, self._environment))

    def _compile(self) -> None:
        had_success = self.group.gather(bool(self.records) and SUCCESS in self.records[-1])[0]
        stops = self.decisions.stops_rollout
        self._step = TrainStep(self._own_run, self._environment, self._traced, stops, had_success)
        activity = f"compiling for {self._step.placement}"
        if isinstance(self._environment, CompiledEnvironment):
            with self._log.terminal.timed(activity):
                self.state = self._step.compile(self.state)
        else:
            self._log.terminal.expect_slow_start(f"{activity} in the first iteration")
            self.state = self._step.compile(self.state)
        if not self.decisions.agree_to_start():
            self._stop()

    def _advance(self, number: int, start_time: float) -> Iteration:
        """Run one iteration, record it, and save it if it is time."""
        old_policy = jax.device_get(self.state.learner.policy) if self._traced else None
        try:
            result = self._step(self.state, self.run.num_iterations)
        except RolloutStopped:
            self._stop()
        self._files.has_unsaved = False  # a state that does not pass its checks must not be saved
        self.state = result.state
        should_save = self._record(result, number, time.perf_counter() - start_time)
        saved = self._save() if should_save or number == self.run.num_iterations else None
        return self._iteration(number, saved, series=result.series, old_policy=old_policy)

    def restored(self) -> Iteration:
        """The saved iteration from which the run resumes."""
        saved = None if self.run_dir is None else checkpoint_path(self.run_dir, self.timesteps)
        return self._iteration(self.timesteps // self.run.batch_size, saved)

    def _iteration(self, number: int, saved: Path | None, **traced: Any) -> Iteration:
        records = self.records or [{STEP: self.timesteps}]  # only process 0 has read the log
        others: dict[str, Any] = {
            "group": self.group.of_learners,
            "log_record": self._log.log,
            "should_stop": self.decisions.stops_rollout,
        }
        return Iteration(self.run, number, records, self.state, self.run_dir, saved, **others, **traced)

    def _record(self, result: StepResult, number: int, elapsed: float) -> bool:
        """Record the metrics of all processes, and decide together whether to save."""
        directory = self._files.directory
        restarts = self._restarts_before + getattr(self._environment, "restarts", 0) if self._workers.restart else None
        outcome = self.decisions.gather(result, restarts, directory.should_save(number, stopping=False))
        self._files.require_sound(outcome.fault and f"{outcome.fault}; check the environment")
        self._files.check_claim()
        divergence = self._log.record(outcome, number, elapsed)
        self.timesteps = number * self.run.batch_size
        self._files.has_unsaved = divergence is None
        self._log.show()
        self._files.require_sound(divergence)
        return outcome.save or (outcome.stop and directory.should_save(number, stopping=True))

    def _save(self) -> Path | None:
        return self._files.save(self._step.placement.whole(self.state), before=self._log.sync)

    def saved(self, iteration: Iteration) -> Iteration:
        """An iteration that ends the run, with its checkpoint: it is saved now if it is not saved yet."""
        checkpoint = self._save_last(is_chosen=True)
        return iteration if checkpoint is None else replace(iteration, checkpoint=checkpoint)

    def _save_last(self, is_chosen: bool = False) -> Path | None:
        """Save the last complete iteration, if it is not saved yet and the next one has not reused its buffers.

        If the caller or a callback has chosen it as the last one, it is also saved between restarts of environments.
        """
        if not self._files.has_unsaved or is_deleted(self.state):
            return None
        if is_chosen or self._files.directory.should_save(int(self.state.iteration), stopping=True):
            return self._save()
        return None

    def _stop(self) -> NoReturn:
        """Save the last complete iteration and leave the loop."""
        checkpoint = self._save_last()
        if checkpoint is not None:
            self.stopped_at = self._iteration(self.timesteps // self.run.batch_size, checkpoint)
        raise Interrupted(self._files.directory.resume_hint(self.timesteps)) from None
