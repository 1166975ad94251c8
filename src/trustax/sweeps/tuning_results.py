"""The result of tuning: the best settings as a file, a table of the best trials, and a picture of the study."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column, Table

from trustax.cli.formatting import short_count
from trustax.errors import TrustaxError
from trustax.run import Run
from trustax.storage.atomic import write_atomic
from trustax.sweeps.grid import RUN_SETTINGS, with_choice
from trustax.sweeps.ranges import Range, choice_of
from trustax.sweeps.statistics import mean_interval

BEST_FILE = "best.toml"
ROWS = 10


@dataclass(frozen=True)
class TuningResult:
    """The trials of a study."""

    folder: Path
    run: Run = field(repr=False)
    """the run with its default settings"""
    space: Mapping[str, Range | tuple[Any, ...]] = field(repr=False)
    objective: str
    study: Any = field(repr=False)
    """the study of Optuna"""

    def __repr__(self) -> str:
        count = len(self.study.trials)
        best = ""
        if self._trials("COMPLETE"):
            settings = ", ".join(f"{name}={_short(value)}" for name, value in self.best_settings.items())
            best = f"; best: trial {self.best_trial.number} with {self.best_trial.value:.4g} ({settings})"
        return f"TuningResult({str(self.folder)!r}: {count} trial{'' if count == 1 else 's'}{best})"

    @property
    def best_trial(self) -> Any:
        """The complete trial with the highest objective."""
        complete = self._trials("COMPLETE")
        if not complete:
            raise TrustaxError("no trial is complete yet, so there are no best settings")
        return max(complete, key=lambda trial: trial.value)

    @property
    def best_settings(self) -> dict[str, Any]:
        """The tuned settings of the best trial."""
        return choice_of(self.space, self.best_trial.params)

    @property
    def best_run(self) -> Run:
        """The run of the best trial, with the seeds of the study."""
        return with_choice(self.run, self.best_settings)

    def best_value(self) -> float | None:
        """The objective of the best trial; None if no trial is complete."""
        return self.best_trial.value if self._trials("COMPLETE") else None

    @property
    def steps(self) -> int:
        """Environment steps of all trials and seeds."""
        return sum(trial.user_attrs.get("steps", 0) for trial in self.study.trials)

    @property
    def settings_file(self) -> Path:
        return self.folder / BEST_FILE

    def save(self) -> None:
        """Write the settings of the best trial to `best.toml`, which `trustax train --settings` reads."""
        if self._trials("COMPLETE"):
            write_atomic(self.settings_file, self._toml())

    def table(self) -> Table:
        """The best trials: complete ones first, then those that were pruned latest."""
        caption = f"objective: {self.objective}, over seeds; final return: 95% interval of the mean over seeds"
        # The names of several settings do not fit side by side into a terminal of 80 columns.
        heading = "settings" if len(self.space) > 1 else next(iter(self.space))
        settings = Column(heading, no_wrap=True)
        table = Table("trial", settings, "objective", "final return", "steps", caption=caption)
        for trial in self._ranked()[:ROWS]:
            values = {name: _short(trial.params[name]) for name in self.space}
            named = values.values() if len(values) == 1 else (f"{name}={value}" for name, value in values.items())
            steps = short_count(trial.user_attrs.get("steps", 0) / self.run.num_seeds)
            pruned = "" if trial.state.name == "COMPLETE" else " pruned"
            table.add_row(
                str(trial.number), "\n".join(named), f"{trial.value:.4g}", _interval(trial), f"{steps}{pruned}"
            )
        return table

    def plot(self, path: str | Path) -> None:
        """Plot the objective of each trial with the best so far, and the objective over each tuned setting."""
        from trustax.plotting.tuning import Point, Scale, plot_tuning  # Matplotlib takes half a second to import

        points = [
            Point(trial.number, trial.value, trial.state.name == "COMPLETE", trial.params)
            for trial in self.study.trials
            if trial.state.name in ("COMPLETE", "PRUNED") and trial.value is not None
        ]
        scales = {
            name: Scale(one.low, one.high, one.log) if isinstance(one, Range) else None
            for name, one in self.space.items()
        }
        title = f"{self.run.algorithm_name} on {self.run.env_id}"
        plot_tuning(points, scales, Path(path), title)

    def _trials(self, state: str) -> list[Any]:
        return [trial for trial in self.study.trials if trial.state.name == state]

    def _ranked(self) -> list[Any]:
        pruned = [trial for trial in self._trials("PRUNED") if trial.value is not None]
        complete = sorted(self._trials("COMPLETE"), key=lambda trial: -trial.value)
        return complete + sorted(pruned, key=lambda trial: (-trial.user_attrs.get("steps", 0), -trial.value))

    def _toml(self) -> str:
        """All settings of the best trial; those that were tuned come first."""
        run, trial = self.best_run, self.best_trial
        own = ["env_id", *(name for name in RUN_SETTINGS if name not in ("num_seeds", "seed"))]
        values = {name: getattr(run, name) for name in own}
        values |= {one.name: getattr(run.algorithm, one.name) for one in dataclasses.fields(run.algorithm)}
        tuned = [f"{name} = {to_toml(values.pop(name))}" for name in self.space]
        ended = sum(one.state.is_finished() for one in self.study.trials)
        lines = [
            f"# The best of {ended} trials of {run.algorithm_name}: objective {trial.value:.6g} (trial {trial.number})",
            f"# trustax train {run.algorithm_name} --settings {BEST_FILE}",
            *tuned,
            "",
            "# settings that all trials share",
            *(f"{name} = {to_toml(value)}" for name, value in values.items() if value is not None),
        ]
        return "\n".join(lines) + "\n"


def to_toml(value: Any) -> str:
    """A setting as TOML.

    >>> to_toml(1e-5), to_toml((64, 64)), to_toml(True), to_toml("tanh")
    ('1e-05', '[64, 64]', 'true', '"tanh"')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _interval(trial: Any) -> str:
    returns = np.array([value for value in trial.user_attrs.get("returns", []) if value is not None], dtype=float)
    if not len(returns):
        return ""
    if len(returns) == 1:
        return f"{returns[0]:.4g}"
    low, high = mean_interval(returns)
    return f"{low:.4g} to {high:.4g}"
