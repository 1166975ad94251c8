"""The commands `trustax train` and `trustax resume`: dataclasses of options, and calling one runs the command."""

import itertools
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Generic

import tyro

from trustax.cli.commands import environment_of
from trustax.cli.optional import OptionalInt, OptionalStr, Strings
from trustax.cli.parsing import with_flags
from trustax.cli.processes import Processes
from trustax.envs.engines import bare_id, imports_module, resumes_exactly
from trustax.errors import TrustaxError
from trustax.run import Run, SomeAlgorithm, read_run, settings_of
from trustax.runtime.callbacks import callback_from_text
from trustax.runtime.result import Result
from trustax.storage.mirror import local_copy
from trustax.storage.object_store import is_url
from trustax.training import CURVE_FILE, train


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that both commands share: checkpoints, progress, callbacks, loggers and worker processes."""

    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints; the end of the run is always saved."""
    quiet: bool = False
    """Do not show progress."""
    callbacks: Strings = ()
    """Callbacks by name: evaluate, stop-at-return, stop-without-progress, keep-agents, progress, or your own.
    With settings: evaluate:interval=10,episodes=10 stop-at-return:value=475"""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where to log metrics besides metrics.jsonl: tensorboard, wandb, mlflow, or your own logger."""
    num_workers: int = 0
    """Processes that step Gymnasium environments in parallel, with the same results; 0 means none."""
    worker_timeout: float = 60.0
    """Seconds after which a worker process that does not answer counts as failed."""
    restart_workers: bool = False
    """Replace a worker process that fails, and count its episodes as truncated, instead of stopping."""

    def train(self, run: Run, folder: str | Path, resume: bool, processes: Processes) -> None:
        """Train a run, and print where its results are."""
        if resume and not resumes_exactly(run.env_id) and run.restart_interval == 0:
            print("this engine cannot save its environments: new episodes start, so resuming is not exact bit for bit")
        options: dict[str, Any] = {option.name: getattr(self, option.name) for option in fields(TrainingOptions)}
        options |= {"callbacks": map(callback_from_text, self.callbacks), "distributed": processes.chosen()}
        try:
            result = train(run, run_dir=folder, resume=resume, **options)
        except TrustaxError as error:
            if type(error) is not TrustaxError:
                raise
            raise TrustaxError(with_flags(str(error), settings_of(run, without=()))) from error
        _report(result, folder)


@dataclass(frozen=True, kw_only=True)
class Output(TrainingOptions):
    """Where a run writes its results, and what it shows."""

    run_dir: OptionalStr = None
    """The folder of the run, or its URL (s3://bucket/x); by default runs/ENV__METHOD__SEED__TIME."""
    resume: bool = False
    """Resume the run in --run-dir, if there is one."""

    def __post_init__(self) -> None:
        if self.resume and self.run_dir is None:
            raise TrustaxError("--resume needs --run-dir, the folder of the run to resume")


@dataclass(frozen=True, kw_only=True)
class Train(Generic[SomeAlgorithm]):
    """Train a method on an environment."""

    run: Run[SomeAlgorithm]
    output: Output = field(default_factory=Output)
    processes: Processes = field(default_factory=Processes)
    task: OptionalStr = None
    """A task of the paper, such as hopper, instead of --env-id; either way, the paper's settings are the defaults."""
    settings: OptionalStr = None
    """A TOML file of settings, such as best.toml of trustax tune, or zoo for tuned ones; other options override it."""

    def __call__(self) -> None:
        if not self.run.env_id:
            raise TrustaxError("--env-id is missing; choose an environment, for example --env-id Pendulum-v1")
        if self.processes.chosen() is not None and self.output.run_dir is None:
            raise TrustaxError("--distributed needs --run-dir, a folder that all processes share")
        folder = self.output.run_dir or _new_folder(self.run)
        self.output.train(self.processes.divided(self.run), folder, self.output.resume, self.processes)


@dataclass(frozen=True, kw_only=True)
class Resume(TrainingOptions):
    """Resume a run that was stopped, or train a finished one for longer."""

    run_dir: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of the run, or its URL in an object store."""
    total_timesteps: OptionalInt = None
    """A new total for the run; learning-rate decay then extends to the new end."""
    env_id: OptionalStr = None
    """The environment of the run; required if it imports a module, or with a prefix if another engine ran it."""
    processes: Processes = field(default_factory=Processes)

    def __call__(self) -> None:
        run = read_run(local_copy(self.run_dir))
        env_id = environment_of(run, self.env_id)
        if bare_id(env_id) != bare_id(run.env_id):
            raise TrustaxError(f"{self.run_dir} holds a run on {run.env_id}, not on {self.env_id}")
        run = replace(run, env_id=env_id)
        if self.total_timesteps is not None:
            run = replace(run, total_timesteps=self.total_timesteps)
        self.train(run, self.run_dir, True, self.processes)


def _new_folder(run: Run) -> Path:
    name = f"{run.env_id.replace(':', '-').replace('/', '-')}__{run.algorithm_name}__{run.seed}"
    name += f"__{time.strftime('%Y%m%d-%H%M%S')}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder for folder in map(Path("runs").joinpath, names) if not folder.exists())


def _report(result: Result, place: str | Path) -> None:
    """Print where the results are."""
    assert result.run_dir is not None
    if not result.group.is_first:
        return
    if int(result.state.iteration) < result.run.num_iterations:
        print(f"stopped by a callback; resume with: trustax resume {quote(str(place))}")
    print(f"run folder      {place}")
    if (result.run_dir / CURVE_FILE).exists():  # there is no curve if no episode has ended
        print(f"learning curve  {place}/{CURVE_FILE}")
    if not is_url(place):
        env_id = f" --env-id {result.run.env_id}" if imports_module(result.run.env_id) else ""
        print(f"next            trustax evaluate {quote(str(place))}{env_id}")
