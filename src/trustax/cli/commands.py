"""Commands for runs and environments. Each is a dataclass of options, and calling it runs the command."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from trustax.cli.optional import OptionalFloat, OptionalPath, OptionalStr
from trustax.envs.check import check, report
from trustax.envs.engines import imports_module
from trustax.errors import TrustaxError
from trustax.evaluation import environment_of_agent, evaluate, evaluate_all
from trustax.plotting.labels import run_labels
from trustax.plotting.learners import LearnerRecords, groups_of
from trustax.plotting.record import record
from trustax.run import RUN_FILE, Run, read_run
from trustax.settings import per_learner_values
from trustax.storage.journal import read_records
from trustax.storage.loading import is_agent, load
from trustax.storage.mirror import local_copy
from trustax.storage.object_store import is_url

Folder = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Folders = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the agents of a run, or a saved agent, without learning."""

    run_dir: Folder
    """The folder of the run or of the agent, or its URL."""
    num_episodes: int = 10
    """Number of episodes per learner."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely ones."""
    env_id: OptionalStr = None
    """Evaluate in this environment instead of the one of training."""
    seed: int = 0
    """The seed of the environments."""

    def __call__(self) -> None:
        if is_agent(self.run_dir):
            print(evaluate(load(self.run_dir), self.env_id, self.num_episodes, not self.stochastic, self.seed))
            return
        folder = local_copy(self.run_dir)
        run = read_run(folder)
        env_id = environment_of(run, self.env_id)
        values = per_learner_values(run.algorithm)
        headings = ["learner", "seed", *values, "return", "± std", "length"]
        table = Table(*headings)
        means = []
        agents = [load(folder, learner) for learner in range(run.num_seeds)]
        seeds = [self.seed] * run.num_seeds
        results = evaluate_all(agents, env_id, seeds, self.num_episodes, not self.stochastic)
        for learner, (seed, result) in enumerate(zip(run.seeds, results, strict=True)):
            means.append(result.returns.mean())
            cells = [str(learner), str(seed), *(f"{each[learner]:g}" for each in values.values())]
            cells += [f"{result.returns.mean():.2f}", f"{result.returns.std():.2f}", f"{result.lengths.mean():.0f}"]
            if result.successes is not None:
                if len(table.columns) == len(headings):
                    table.add_column("success rate")
                cells.append(f"{result.successes.mean():.2f}")
            table.add_row(*cells)
        if run.num_seeds > 1 and not values:  # learners with different settings have no common mean
            table.add_section()
            table.add_row("all", "", f"{np.mean(means):.2f}", f"{np.std(means):.2f} over seeds")
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
    """Plot the learning curves of one or more runs in one figure, with one panel per task."""

    run_dirs: Folders
    """The folders of the runs or their URLs, or a folder that contains them: runs."""
    output: Path = Path("curves.png")
    """The figure: .png, .svg or .pdf."""
    metric: str = "rollout/ep_rew_mean"
    """The metric to plot, by its name in metrics.jsonl; eval/mean_reward needs runs with --callbacks evaluate."""

    def __call__(self) -> None:
        from trustax.plotting.tasks import plot_tasks

        if not self.run_dirs:
            raise TrustaxError("plot needs the folder of at least one run")
        runs, records = {}, {}
        for folder in self._run_folders():
            groups = groups_of(read_run(folder))
            for number, (run, learners) in enumerate(groups):
                name = str(folder) if len(groups) == 1 else f"{folder} {number}"
                runs[name], records[name] = run, LearnerRecords(read_records(folder), learners)
        tasks = {}
        for env_id in sorted({run.env_id for run in runs.values()}):
            own = {name: run for name, run in runs.items() if run.env_id == env_id}
            tasks[env_id] = {label: records[name] for label, name in zip(run_labels(own), own, strict=True)}
        plot_tasks(tasks, self.output, self.metric)
        print(self.output)

    def _run_folders(self) -> list[Path]:
        """The folders that hold runs. Other folders, which `runs/*` may include, are skipped."""
        given = [run for folder in self.run_dirs for run in _runs_in(local_copy(folder))]
        runs = [folder for folder in given if (folder / RUN_FILE).exists()]
        for other in sorted(set(given) - set(runs)) if runs else []:
            print(f"skipped: {other} is not a run folder", file=sys.stderr)
        return runs or given


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record a video of an agent, as a GIF or an MP4."""

    run_dir: Folder
    """The folder of the run, or its URL."""
    output: OptionalPath = None
    """The video, .gif or .mp4; by default recording.gif in the run's folder, if it is on this machine."""
    learner: int = 0
    """The index of the learner, starting at 0."""
    num_episodes: int = 1
    """Number of episodes."""
    max_steps: int = 3_000
    """Maximum number of steps, over all episodes."""
    fps: OptionalFloat = None
    """Frames per second; by default those of the environment."""
    stochastic: bool = False
    """Sample actions instead of taking the most likely ones."""
    env_id: OptionalStr = None
    """Record in this environment instead of the one of training."""
    seed: int = 0
    """The seed of the environment."""

    def __call__(self) -> None:
        is_run = not is_agent(self.run_dir)
        folder = local_copy(self.run_dir) if is_run else Path()
        agent = load(folder if is_run else self.run_dir, self.learner)
        env_id = environment_of(read_run(folder), self.env_id) if is_run else self.env_id or environment_of_agent(agent)
        recording = record(
            agent,
            env_id,
            self.output or (Path() if is_url(self.run_dir) else folder) / "recording.gif",
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
    """The folder of a run or of a saved agent, or its URL."""
    output: Path = Path("policy.onnx")
    """The file: .onnx or .stablehlo."""
    learner: int = 0
    """The index of the learner, starting at 0."""
    stochastic: bool = False
    """Sample actions with the input `noise` instead of taking the most likely ones."""

    def __call__(self) -> None:
        load(self.agent, self.learner).export(self.output, deterministic=not self.stochastic)
        print(self.output)


def _runs_in(folder: Path) -> list[Path]:
    """The runs in a folder; the folder itself if it is a run or contains none."""
    contained = [] if (folder / RUN_FILE).exists() else sorted(file.parent for file in folder.glob(f"*/{RUN_FILE}"))
    return contained or [folder]


def environment_of(run: Run, other: str | None) -> str:
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
