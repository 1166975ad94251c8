"""The command that reproduces the paper."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from trustax.errors import TrustaxError
from trustax.paper.experiments import PROTOCOLS
from trustax.paper.reproduce.plan import Part
from trustax.paper.reproduce.reproduce import NAMES, render, require_known, run_missing


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run an experiment of the paper, as far as that has not been done, and show it beside the paper's numbers.

    Stopped or killed, it goes on where it was when the same command is given again.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help=f"One of: {', '.join(NAMES)}.")]
    methods: tuple[str, ...] = ()
    """Only these methods, by their names in the paper; by default all of the experiment."""
    tasks: tuple[str, ...] = ()
    """Only these tasks; by default all of the experiment."""
    seeds: int | None = None
    """How many seeds; by default as many as in the paper."""
    steps: int | None = None
    """Environment steps of each seed; by default as many as in the paper."""
    protocol: Literal["paper", "bootstrapped", "both"] = "paper"
    """What a time limit is: a termination, as in the paper's code; bootstrapped, as it should be; or both in turn."""
    jobs: int | None = None
    """How many runs at once; by default one for every core."""
    results: Path = Path("results")
    """Where outcomes are kept, a small file of each run."""
    runs: Path = Path("runs/reproduce")
    """Where the runs' folders are, with metrics and checkpoints."""
    render_only: bool = False
    """Run nothing; show what there is."""

    def __call__(self) -> None:
        require_known(self.name)
        for option in ("seeds", "steps", "jobs"):
            if (value := getattr(self, option)) is not None and value < 1:
                raise TrustaxError(f"--{option} must be at least 1, not {value}")
        part = Part(
            name=self.name,
            protocols=list(PROTOCOLS) if self.protocol == "both" else [self.protocol],
            methods=self.methods or None,
            tasks=self.tasks or None,
            num_seeds=self.seeds,
            total_timesteps=self.steps,
        )
        failures = [] if self.render_only else run_missing(part, self.results, self.runs, self.jobs)
        render(part, self.results, Console())
        for job, reason in failures:
            print(f"✗ {job.title}: {reason}", file=sys.stderr)
        if failures:
            raise TrustaxError(f"failed runs: {len(failures)}; the same command tries them again")
