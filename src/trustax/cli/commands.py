"""The commands. Each is a dataclass of options, and calling it runs the command."""

import itertools
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Generic

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from trustax.cli.processes import Processes
from trustax.envs.check import check, report
from trustax.envs.engines import imports_module, resumes_exactly
from trustax.errors import TrustaxError
from trustax.evaluation import evaluate
from trustax.plotting.labels import run_labels
from trustax.plotting.record import record
from trustax.run import RUN_FILE, Run, SomeAlgorithm, read_run
from trustax.runtime.callbacks import callback_from_text
from trustax.storage.journal import read_records
from trustax.storage.mirror import local_copy
from trustax.storage.object_store import is_url
from trustax.storage.run_directory import load
from trustax.training import CURVE_FILE, Result, train

Folder = Annotated[Path, tyro.conf.Positional]
Folders = Annotated[tuple[Path, ...], tyro.conf.Positional]


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a run writes its results, and what it shows."""

    run_dir: str | None = None
    """The folder of the run, or its URL in an object store: s3://bucket/runs/x; by default a folder in runs/ named
    after environment, method, seed and time."""
    resume: bool = False
    """Resume the run in --run-dir, if there is one."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints; the last iteration is always saved."""
    quiet: bool = False
    """Do not show progress."""
    callbacks: tuple[str, ...] = ()
    """Callbacks and their settings: evaluate:interval=10,episodes=10 stop-at-return:value=475
    stop-without-progress:patience=50 keep-agents:every=100000 progress"""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where to log metrics besides metrics.jsonl: tensorboard, wandb, mlflow, or your own logger."""
    num_workers: int = 0
    """Processes that step Gymnasium environments in parallel, with the same results; 0 means none."""
    worker_timeout: float = 60.0
    """Seconds after which a worker process that does not answer counts as failed."""
    restart_workers: bool = False
    """Replace a worker process that fails, and count its episodes as truncated, instead of stopping."""

    def __post_init__(self) -> None:
        if self.resume and self.run_dir is None:
            raise TrustaxError("--resume needs --run-dir, the folder of the run to resume")


@dataclass(frozen=True, kw_only=True)
class Train(Generic[SomeAlgorithm]):
    """Train a method on an environment."""

    run: Run[SomeAlgorithm]
    output: Output = field(default_factory=Output)
    processes: Processes = field(default_factory=Processes)
    task: str | None = None
    """A task of the paper, for example hopper, instead of an environment id. With either of them, the paper's settings
    for this environment, if any, become the defaults."""
    settings: Path | None = None
    """A TOML file of settings, such as best.toml of trustax tune, which become the defaults of the other options; or
    zoo for tuned settings of common tasks (trustax zoo lists them)."""

    def __call__(self) -> None:
        if not self.run.env_id:
            raise TrustaxError("--env-id is missing; choose an environment, for example --env-id Pendulum-v1")
        distributed = self.processes.chosen()
        if distributed is not None and self.output.run_dir is None:
            raise TrustaxError("--distributed needs --run-dir, a folder that all processes share")
        folder = self.output.run_dir or _new_folder(self.run)
        if self.output.resume:
            _print_exactness(self.run)
        _report(
            train(
                self.processes.divided(self.run),
                run_dir=folder,
                resume=self.output.resume,
                checkpoint_seconds=self.output.checkpoint_seconds,
                quiet=self.output.quiet,
                callbacks=map(callback_from_text, self.output.callbacks),
                loggers=self.output.loggers,
                num_workers=self.output.num_workers,
                worker_timeout=self.output.worker_timeout,
                restart_workers=self.output.restart_workers,
                distributed=distributed,
            ),
            folder,
        )


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Resume a run that was stopped, or train a finished one for longer."""

    run_dir: Annotated[str, tyro.conf.Positional]
    """The folder of the run, or its URL in an object store."""
    total_timesteps: int | None = None
    """A new total for the run; learning-rate decay then extends to the new end."""
    env_id: str | None = None
    """The environment of the run; required if it imports a module."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    quiet: bool = False
    """Do not show progress."""
    callbacks: tuple[str, ...] = ()
    """Callbacks and their settings, as for trustax train."""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where to log metrics besides metrics.jsonl, as for trustax train."""
    num_workers: int = 0
    """Processes that step Gymnasium environments in parallel, with the same results; 0 means none."""
    worker_timeout: float = 60.0
    """Seconds after which a worker process that does not answer counts as failed."""
    restart_workers: bool = False
    """Replace a worker process that fails, and count its episodes as truncated, instead of stopping."""
    processes: Processes = field(default_factory=Processes)

    def __call__(self) -> None:
        run = read_run(local_copy(self.run_dir))
        if _environment_of(run, self.env_id) != run.env_id:
            raise TrustaxError(f"{self.run_dir} holds a run on {run.env_id}, not on {self.env_id}")
        if self.total_timesteps is not None:
            run = replace(run, total_timesteps=self.total_timesteps)
        _print_exactness(run)
        _report(
            train(
                run,
                run_dir=self.run_dir,
                resume=True,
                checkpoint_seconds=self.checkpoint_seconds,
                quiet=self.quiet,
                callbacks=map(callback_from_text, self.callbacks),
                loggers=self.loggers,
                num_workers=self.num_workers,
                worker_timeout=self.worker_timeout,
                restart_workers=self.restart_workers,
                distributed=self.processes.chosen(),
            ),
            self.run_dir,
        )


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the agents of a run, without learning."""

    run_dir: Folder
    """The folder of the run."""
    num_episodes: int = 10
    """Number of episodes per learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely ones."""
    env_id: str | None = None
    """Another environment than the one of training."""
    seed: int = 0
    """The seed of the environments."""

    def __call__(self) -> None:
        run = read_run(self.run_dir)
        env_id = _environment_of(run, self.env_id)
        table = Table("seed", "return", "± std", "length", "success rate")
        means = []
        for learner, seed in enumerate(run.seeds):
            agent = load(self.run_dir, learner)
            result = evaluate(agent, env_id, self.num_episodes, not self.stochastic, self.seed)
            means.append(result.returns.mean())
            table.add_row(
                str(seed),
                f"{result.returns.mean():.2f}",
                f"{result.returns.std():.2f}",
                f"{result.lengths.mean():.0f}",
                "" if result.successes is None else f"{result.successes.mean():.2f}",
            )
        if run.num_seeds > 1:
            table.add_section()
            table.add_row("all", f"{np.mean(means):.2f}", f"{np.std(means):.2f} over seeds")
        Console().print(table)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check with random actions whether an environment is fit for training; exit code 1 if it is not."""

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """An id, with an engine (gymnasium:Mine-v0) or with a module that registers it (my_module:Mine-v0) if needed."""

    def __call__(self) -> None:
        findings = check(self.env_id)
        report(self.env_id, findings, Console())
        if any(finding.verdict == "bad" for finding in findings):
            raise SystemExit(1)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Plot the learning curves of one or more runs in one figure, with one axis per task."""

    run_dirs: Folders
    """The folders of the runs."""
    output: Path = Path("curves.png")
    """The figure: .png, .svg or .pdf."""
    metric: str = "rollout/ep_rew_mean"
    """The metric to plot, by its name in metrics.jsonl."""

    def __call__(self) -> None:
        from trustax.plotting.curves import plot_curves
        from trustax.plotting.tasks import plot_tasks

        if not self.run_dirs:
            raise TrustaxError("plot needs the folder of at least one run")
        runs = {folder: read_run(folder) for folder in self._run_folders()}
        tasks = {}
        for env_id in sorted({run.env_id for run in runs.values()}):
            own = {folder: run for folder, run in runs.items() if run.env_id == env_id}
            labels = run_labels({str(folder): run for folder, run in own.items()})
            tasks[env_id] = {label: read_records(folder) for label, folder in zip(labels, own, strict=True)}
        if len(tasks) == 1:
            ((env_id, curves),) = tasks.items()
            plot_curves(curves, self.output, title=env_id, metric=self.metric)
        else:
            plot_tasks(tasks, self.output, self.metric)
        print(self.output)

    def _run_folders(self) -> list[Path]:
        """The folders that hold runs. Other folders, which `runs/*` may include, are skipped."""
        runs = [folder for folder in self.run_dirs if (folder / RUN_FILE).exists()]
        for other in sorted(set(self.run_dirs) - set(runs)) if runs else []:
            print(f"skipped: {other} is not a run folder", file=sys.stderr)
        return runs or list(self.run_dirs)


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record a video of an agent, as a GIF or an MP4."""

    run_dir: Folder
    """The folder of the run."""
    output: Path | None = None
    """The video, .gif or .mp4; by default recording.gif in the run's folder."""
    learner: int = 0
    """The index of the learner, starting at 0."""
    num_episodes: int = 1
    """Number of episodes."""
    max_steps: int = 3_000
    """Maximum number of steps, over all episodes."""
    fps: float | None = None
    """Frames per second; by default those of the environment."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely ones."""
    env_id: str | None = None
    """Another environment than the one of training."""
    seed: int = 0
    """The seed of the environment."""

    def __call__(self) -> None:
        run = read_run(self.run_dir)
        env_id = _environment_of(run, self.env_id)
        recording = record(
            load(self.run_dir, self.learner),
            env_id,
            self.output or self.run_dir / "recording.gif",
            self.num_episodes,
            self.max_steps,
            not self.stochastic,
            self.seed,
            self.fps,
        )
        print(recording)


@dataclass(frozen=True, kw_only=True)
class Export:
    """Export the policy of an agent to one file that runs without Trustax, in JAX or in an ONNX runtime."""

    agent: Folder
    """The folder of a run or of a saved agent."""
    output: Path = Path("policy.onnx")
    """The file: .onnx or .stablehlo."""
    learner: int = 0
    """The index of the learner, starting at 0."""
    stochastic: bool = False
    """Sample actions with the input `noise` instead of taking the most likely ones."""

    def __call__(self) -> None:
        load(self.agent, self.learner).export(self.output, deterministic=not self.stochastic)
        print(self.output)


def _new_folder(run: Run) -> Path:
    name = f"{run.env_id.replace(':', '-').replace('/', '-')}__{run.algorithm_name}__{run.seed}"
    name += f"__{time.strftime('%Y%m%d-%H%M%S')}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder for folder in map(Path("runs").joinpath, names) if not folder.exists())


def _print_exactness(run: Run) -> None:
    if not resumes_exactly(run.env_id) and run.restart_interval == 0:
        print("this engine cannot save its environments: new episodes start, so resuming is not exact bit for bit")


def _report(result: Result, place: str | Path) -> None:
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


def _environment_of(run: Run, other: str | None) -> str:
    """The environment that the user gives, or that of the run."""
    if other is None:
        _refuse_imports(run)
    return other or run.env_id


def _refuse_imports(run: Run) -> None:
    """Files are safe to open: the environment in a file must not cause the import of a module."""
    if imports_module(run.env_id):
        raise TrustaxError(
            f"the environment {run.env_id!r} in {RUN_FILE} imports a module; to allow this, add --env-id {run.env_id}"
        )
