"""The commands: each a dataclass of options that is called once they are known."""

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

from trustax.envs import engine_of
from trustax.envs.check import check, report
from trustax.envs.engines import imports_module
from trustax.errors import TrustaxError
from trustax.evaluation import evaluate
from trustax.plotting.labels import run_labels
from trustax.plotting.record import record
from trustax.run import RUN_FILE, Run, SomeAlgorithm, read_run
from trustax.runtime.callbacks import callback_from_text
from trustax.storage.journal import read_records
from trustax.storage.run_directory import load
from trustax.training import CURVE_FILE, Result, train

Folder = Annotated[Path, tyro.conf.Positional]
Folders = Annotated[tuple[Path, ...], tyro.conf.Positional]


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a run leaves behind."""

    run_dir: Path | None = None
    """The run's folder; by default one under runs/ named after environment, method, seed and time."""
    resume: bool = False
    """Go on with the run in run_dir, if there is one."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints; one is written at the end in any case."""
    quiet: bool = False
    """Show nothing while training."""
    callbacks: tuple[str, ...] = ()
    """Callbacks with their settings: evaluate:interval=10,episodes=10 stop-at-return:value=475
    stop-without-progress:patience=50 keep-agents:every=100000 progress"""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl: tensorboard, wandb, mlflow, or one of your own."""


@dataclass(frozen=True, kw_only=True)
class Train(Generic[SomeAlgorithm]):
    """Train a method on an environment."""

    run: Run[SomeAlgorithm]
    output: Output = field(default_factory=Output)
    task: str | None = None
    """A task of the paper instead of an environment id, for example hopper. Either brings the paper's settings along
    as defaults, where the paper has any."""

    def __call__(self) -> None:
        if not self.run.env_id:
            raise TrustaxError("--env-id is missing: which environment, for example Pendulum-v1?")
        if self.output.resume and self.output.run_dir is None:
            raise TrustaxError("--resume needs --run-dir, the folder of the run that is to go on")
        folder = self.output.run_dir or _folder_for(self.run)
        _say_rounding(self.run)
        if self.output.resume:
            _say_how_exact(self.run)
        _report(
            train(
                self.run,
                run_dir=folder,
                resume=self.output.resume,
                checkpoint_seconds=self.output.checkpoint_seconds,
                quiet=self.output.quiet,
                callbacks=map(callback_from_text, self.output.callbacks),
                loggers=self.output.loggers,
            )
        )


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Go on with a run that was stopped, or make a finished one longer."""

    run_dir: Folder
    """The run's folder."""
    total_timesteps: int | None = None
    """A new length for the run; learning-rate decay then aims at the new end."""
    env_id: str | None = None
    """The run's environment once more, where it imports a module."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    quiet: bool = False
    """Show nothing while training."""
    callbacks: tuple[str, ...] = ()
    """Callbacks with their settings, as for train."""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl, as for train."""

    def __call__(self) -> None:
        run = read_run(self.run_dir)
        if _environment_of(run, self.env_id) != run.env_id:
            raise TrustaxError(f"{self.run_dir} holds a run on {run.env_id}, not on {self.env_id}")
        if self.total_timesteps is not None:
            run = replace(run, total_timesteps=self.total_timesteps)
        _say_how_exact(run)
        _report(
            train(
                run,
                run_dir=self.run_dir,
                resume=True,
                checkpoint_seconds=self.checkpoint_seconds,
                quiet=self.quiet,
                callbacks=map(callback_from_text, self.callbacks),
                loggers=self.loggers,
            )
        )


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Run whole episodes with the agents of a run, without learning."""

    run_dir: Folder
    """The run's folder."""
    num_episodes: int = 10
    """Episodes of each learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely one."""
    env_id: str | None = None
    """Another environment than the one it was trained on."""
    seed: int = 0
    """Seed of the environments."""

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
    """Play an environment at random and say whether it is fit for training; exit code 1 if it is not."""

    env_id: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The environment: an id, an engine and an id, or a module that registers it and its id (my_module:Mine-v0)."""

    def __call__(self) -> None:
        findings = check(self.env_id)
        report(self.env_id, findings, Console())
        if any(finding.verdict == "bad" for finding in findings):
            raise SystemExit(1)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the learning curves of one or more runs into one picture."""

    run_dirs: Folders
    """The runs' folders."""
    output: Path = Path("curves.png")
    """The picture; .png, .svg or .pdf."""
    metric: str = "rollout/ep_rew_mean"
    """What to draw, by its name in metrics.jsonl."""

    def __call__(self) -> None:
        from trustax.plotting.curves import plot_curves

        if not self.run_dirs:
            raise TrustaxError("plot needs the folder of at least one run")
        runs = {folder: read_run(folder) for folder in self._chosen()}
        labels = run_labels({str(folder): run for folder, run in runs.items()})
        curves = {label: read_records(folder) for label, folder in zip(labels, runs, strict=True)}
        environments = sorted({run.env_id for run in runs.values()})
        plot_curves(curves, self.output, title=", ".join(environments), metric=self.metric)
        print(self.output)

    def _chosen(self) -> list[Path]:
        """The folders that are runs; of many, `runs/*` for example, others are left out."""
        runs = [folder for folder in self.run_dirs if (folder / RUN_FILE).exists()]
        for other in sorted(set(self.run_dirs) - set(runs)) if runs else []:
            print(f"left out: {other} is no run folder", file=sys.stderr)
        return runs or list(self.run_dirs)


@dataclass(frozen=True, kw_only=True)
class Record:
    """Film an agent of a run: whole episodes, as a GIF or an MP4."""

    run_dir: Folder
    """The run's folder."""
    output: Path | None = None
    """The film, .gif or .mp4; by default recording.gif in the run's folder."""
    learner: int = 0
    """Which of the run's learners, counted from 0."""
    num_episodes: int = 1
    """How many episodes."""
    max_steps: int = 3_000
    """The film ends after so many steps at the latest, all episodes together."""
    fps: float | None = None
    """Frames a second; by default what the environment says."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely one."""
    env_id: str | None = None
    """Another environment than the one it was trained on."""
    seed: int = 0
    """Seed of the environment."""

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


def _folder_for(run: Run) -> Path:
    name = f"{run.env_id.replace(':', '-').replace('/', '-')}__{run.algorithm_name}__{run.seed}"
    name += f"__{time.strftime('%Y%m%d-%H%M%S')}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder for folder in map(Path("runs").joinpath, names) if not folder.exists())


def _say_rounding(run: Run) -> None:
    steps = run.num_iterations * run.batch_size
    if steps != run.total_timesteps:
        print(
            f"total_timesteps {run.total_timesteps:,} becomes {steps:,}: {run.num_iterations:,} iterations of "
            f"{run.batch_size:,} steps"
        )


def _say_how_exact(run: Run) -> None:
    if engine_of(run.env_id) not in ("native", "gymnax") and run.restart_interval == 0:
        print("this engine cannot save its environments: new episodes begin, so the run goes on, but not bit for bit")


def _report(result: Result) -> None:
    folder = result.run_dir
    assert folder is not None
    if len(result.records) < result.run.num_iterations:
        print(f"stopped by a callback; to go on: trustax resume {quote(str(folder))}")
    print(f"run folder      {folder}")
    if (folder / CURVE_FILE).exists():  # there is none where no episode has ended
        print(f"learning curve  {folder / CURVE_FILE}")
    named = f" --env-id {result.run.env_id}" if imports_module(result.run.env_id) else ""
    print(f"next            trustax evaluate {quote(str(folder))}{named}")


def _environment_of(run: Run, other: str | None) -> str:
    """The environment that the user names, or the run's own."""
    if other is None:
        _refuse_imports(run)
    return other or run.env_id


def _refuse_imports(run: Run) -> None:
    """Files are safe to open: an environment that is named in one must not make us import a module."""
    if imports_module(run.env_id):
        raise TrustaxError(
            f"the run's environment {run.env_id!r} imports a module, which a file may not ask for; name it yourself: "
            f"--env-id {run.env_id}"
        )
