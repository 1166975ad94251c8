"""The command that reproduces the paper."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from trustax.cli.optional import OptionalInt, Strings
from trustax.cli.parsing import flag
from trustax.errors import TrustaxError
from trustax.paper.experiments import EXPERIMENTS, PROTOCOLS
from trustax.paper.reproduce.plan import TIMED, Part
from trustax.paper.reproduce.reproduce import DRAWN, NAMES, TRACED, render, require_known, run_missing
from trustax.sweeps.options import EngineOptions


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run an experiment of the paper and show its results beside the paper's numbers.

    Finished runs are not repeated. After an interruption, the same command resumes where it stopped.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help=f"One of: {', '.join(NAMES)}.")]
    methods: Strings = ()
    """Run only these methods, by their names in the paper; default: all of the experiment."""
    tasks: Strings = ()
    """Run only these tasks; default: all of the experiment."""
    seeds: OptionalInt = None
    """Number of seeds; default: as in the paper."""
    steps: OptionalInt = None
    """Environment steps per seed; default: as in the paper."""
    protocol: Literal["paper", "bootstrapped", "both"] = "paper"
    """How time limits count: as terminations (paper), bootstrapped, or one protocol after the other (both)."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    results: Path = Path("results")
    """Folder for the results, one small file per run."""
    runs: Path = Path("runs/reproduce")
    """Folder for the run directories, with metrics and checkpoints."""
    render_only: bool = False
    """Run nothing; only show the existing results."""

    def __call__(self) -> None:
        require_known(self.name)
        for option in ("seeds", "steps"):
            if (value := getattr(self, option)) is not None and value < 1:
                raise TrustaxError(f"--{option} must be at least 1, not {value}")
        for option in ("results", "runs"):
            if ":/" in str(path := getattr(self, option)):  # a Path makes one slash of the two in a URL
                raise TrustaxError(f"--{option} must be a folder on a disk, not the URL {path}")
        self._refuse_unused()
        part = Part(
            name=self.name,
            protocols=list(PROTOCOLS) if self.protocol == "both" else [self.protocol],
            methods=self.methods or None,
            tasks=self.tasks or None,
            num_seeds=self.seeds,
            total_timesteps=self.steps,
        )
        if self.name in EXPERIMENTS:
            part.cells(part.protocols[0])  # raises an error for an unknown method or task
        failures = [] if self.render_only else run_missing(part, self.results, self.runs, self.engine.make())
        render(part, self.results, Console())
        for job, reason in failures:
            print(f"✗ {job.title}: {reason}", file=sys.stderr)
        if failures:
            raise TrustaxError(f"failed runs: {len(failures)}; run the same command to try them again")

    def _refuse_unused(self) -> None:
        """Raise an error for an option that would change nothing."""
        engine = self.engine.given()
        unused, reason = list[str](), ""
        if self.name in (*TRACED, TIMED):
            unused, reason = engine, "its runs train on this machine, one after the other"
        if self.render_only or self.name in DRAWN:
            unused, reason = ["seeds", "steps", *engine], "nothing is run"
            unused += [] if self.name in EXPERIMENTS else ["methods", "tasks"]
        for name in unused:
            if name in engine or getattr(self, name):
                raise TrustaxError(f"{flag(name)} changes nothing in {self.name}: {reason}; leave it out")
