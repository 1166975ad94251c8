"""Successive halving: a generation of trials trains for a part of its steps, and only the best trials continue.

Trials that differ only in settings that learners of one run may differ in are learners of one run, so they share a
compiled program. The trials that continue are copied into a run of their own, from the checkpoint of the old one: they
lose no steps, and the schedules of their settings are those of the complete run. Everything is in the run folders, so
an interrupted generation continues where it was.

Jamieson, Talwalkar: Non-stochastic Best Arm Identification and Hyperparameter Optimization. AISTATS 2016.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

from trustax.errors import TrustaxError
from trustax.ops.metrics import STEP, Record
from trustax.run import Run, to_json, write_run
from trustax.runtime.divergence import stuck_learners
from trustax.storage.history import checkpoint_path, newest_sound_or_raise, step_of
from trustax.storage.journal import METRICS_FILE, read_records
from trustax.storage.pytree import copy_rows, read_header
from trustax.sweeps.grid import short_hash, side_by_side, with_choice
from trustax.sweeps.pool import Failure
from trustax.sweeps.ranges import is_mapped
from trustax.sweeps.worker import Job, finished_records

Choice = Mapping[str, Any]
Train = Callable[[Sequence[Job]], list[Failure]]
Score = Callable[[Sequence[Record], slice], float]
"""The objective of a trial, from the records of its run and its learners there; NaN if it is not known yet."""
Report = Callable[[int, Sequence[Record], slice], None]
"""Called with the number of a trial, the records of its run so far, and its learners there."""
LEVELS = 3
"""A generation is pruned at most twice."""


class TrialOutcome(NamedTuple):
    """How a trial ended."""

    state: str
    """complete, pruned or failed"""
    steps: int
    """environment steps of each seed"""
    value: float
    """the objective at the last step"""
    reason: str = ""
    """why the trial failed"""


@dataclass(frozen=True)
class TrialGroup:
    """Trials that are learners of one run."""

    choices: Mapping[int, Choice]
    """number of a trial → its settings"""
    run: Run
    folder: Path

    @classmethod
    def of(cls, base: Run, choices: Mapping[int, Choice], folder: Path) -> "TrialGroup":
        """The trials must have the same settings, except those that learners may differ in."""
        first = next(iter(choices.values()))
        mapped = [name for name in first if is_mapped(base, name)]
        run = with_choice(base, {name: value for name, value in first.items() if name not in mapped})
        run = side_by_side(run, [{name: float(one[name]) for name in mapped} for one in choices.values()])
        unique = short_hash(to_json(run))
        return cls(choices, run, folder / f"{_named(choices).replace(' ', '-')}__{unique}")

    def learners(self, number: int) -> slice:
        """The learners of a trial."""
        seeds = self.run.num_seeds // len(self.choices)
        index = list(self.choices).index(number)
        return slice(index * seeds, (index + 1) * seeds)

    def rows(self, number: int) -> range:
        """The indices of a trial's learners."""
        return range(self.run.num_seeds)[self.learners(number)]

    def job(self, fraction: float) -> Job:
        """Train the run up to a fraction of its iterations."""
        iterations = min(self.run.num_iterations, max(2, round(fraction * self.run.num_iterations)))
        steps = iterations * self.run.batch_size
        return Job(title=_named(self.choices), run=self.run, folder=self.folder, stop_at=steps)

    def restricted(self, base: Run, numbers: Iterable[int]) -> "TrialGroup | None":
        """The group of some of its trials, with their state in a folder of its own; None if there is none."""
        kept = {number: self.choices[number] for number in self.choices if number in set(numbers)}
        if not kept or len(kept) == len(self.choices):
            return self if kept else None
        group = TrialGroup.of(base, kept, self.folder.parent)
        rows = [row for number in kept for row in self.rows(number)]
        copy_learners(self, group, rows)
        return group


def rungs(num_iterations: int, reduction: int) -> list[int]:
    """The iterations after which trials are compared; the last number is that of the complete run.

    The first iteration is collected before any update, so trials are not compared after it.

    >>> rungs(12, reduction=3), rungs(100, reduction=3), rungs(3, reduction=3), rungs(12, reduction=1)
    ([2, 4, 12], [12, 34, 100], [2, 3], [12])
    """
    levels = range(LEVELS) if reduction > 1 else range(1)
    return sorted({min(num_iterations, max(2, ceil(num_iterations / reduction**level))) for level in levels})


def planned_steps(run: Run, num_trials: int, reduction: int) -> int:
    """Environment steps of a generation, of all its learners.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(), env_id="CartPole-v1", total_timesteps=12 * 8192)
    >>> planned_steps(run, 8, reduction=3) / planned_steps(run, 8, reduction=1)
    0.3125
    """
    total, before, alive = 0, 0, num_trials
    for rung in rungs(run.num_iterations, reduction):
        total += alive * (rung - before)
        before, alive = rung, ceil(alive / reduction)
    return total * run.batch_size * run.num_seeds


def halve(
    base: Run, choices: Mapping[int, Choice], folder: Path, reduction: int, train: Train, score: Score, report: Report
) -> dict[int, TrialOutcome]:
    """Train a generation of trials; return how each ended."""
    groups, outcomes = _grouped(base, choices, folder)
    levels = rungs(base.num_iterations, reduction)
    for level in levels:
        fraction = level / base.num_iterations
        groups, failed = _trained(base, groups, fraction, train)
        outcomes |= failed
        scores: dict[int, float] = {}
        for group in groups:
            records, steps = _records(group, fraction), group.job(fraction).steps
            for number in group.choices:
                report(number, records, group.learners(number))
                scores[number] = score(records, group.learners(number))
                outcomes[number] = TrialOutcome("pruned", steps, scores[number])
        count = ceil(len(scores) / reduction) if level != levels[-1] else len(scores)
        known = {number: value if isfinite(value) else -inf for number, value in scores.items()}
        kept = sorted(known, key=lambda number: -known[number])[:count]
        groups = [smaller for group in groups if (smaller := group.restricted(base, kept))]
    for number in (number for group in groups for number in group.choices):
        found = outcomes[number]
        failed_reason = "" if isfinite(found.value) else "no episode has ended; raise total_timesteps"
        outcomes[number] = found._replace(state="failed" if failed_reason else "complete", reason=failed_reason)
    return outcomes


def _grouped(
    base: Run, choices: Mapping[int, Choice], folder: Path
) -> tuple[list[TrialGroup], dict[int, TrialOutcome]]:
    """The trials by the settings that learners of one run share; settings that do not fit together fail."""
    groups: dict[str, dict[int, Choice]] = {}
    failed = {}
    for number, choice in choices.items():
        try:
            with_choice(base, choice)
        except TrustaxError as error:
            failed[number] = TrialOutcome("failed", 0, float("nan"), str(error))
            continue
        shared = repr({name: value for name, value in choice.items() if not is_mapped(base, name)})
        groups.setdefault(shared, {})[number] = choice
    return [TrialGroup.of(base, own, folder) for own in groups.values()], failed


def _trained(
    base: Run, groups: Sequence[TrialGroup], fraction: float, train: Train
) -> tuple[list[TrialGroup], dict[int, TrialOutcome]]:
    """Train all groups up to a fraction of their iterations. Trials that diverge fail, and the others continue."""
    outcomes: dict[int, TrialOutcome] = {}
    finished = list(groups)
    while jobs := [job for group in finished if _is_unfinished(job := group.job(fraction))]:
        failures = {failure.job.folder: failure.reason for failure in train(jobs)}
        for group in [group for group in finished if group.folder in failures]:
            reason = failures[group.folder]
            diverged = _diverged(group)
            if not diverged:
                raise TrustaxError(f"{_named(group.choices)}: {reason}")
            steps = read_records(group.folder)[-1][STEP]
            outcomes |= {number: TrialOutcome("failed", steps, float("nan"), reason) for number in diverged}
            finished.remove(group)
            rest = [number for number in group.choices if number not in diverged]
            finished += [smaller] if (smaller := group.restricted(base, rest)) else []
    return finished, outcomes


def _diverged(group: TrialGroup) -> list[int]:
    """The trials with a learner whose last updates were all skipped."""
    records = read_records(group.folder) if (group.folder / METRICS_FILE).exists() else []
    stuck = set(stuck_learners(records, group.run.num_iterations))
    return [number for number in group.choices if stuck.intersection(group.rows(number))]


def _is_unfinished(job: Job) -> bool:
    return finished_records(job.run, job.folder, job.stop_at) is None


def _records(group: TrialGroup, fraction: float) -> Sequence[Record]:
    records = finished_records(group.run, group.folder, group.job(fraction).stop_at)
    if records is None:
        raise TrustaxError(f"{group.folder} was changed while it was trained; run the same command to continue")
    return records


def copy_learners(old: TrialGroup, new: TrialGroup, rows: Sequence[int]) -> None:
    """Write the folder of a run that continues with some learners of another one."""
    saved = newest_sound_or_raise(old.folder)
    if new.folder.exists() or saved is None:
        return
    temporary = new.folder.with_name(f".tmp-{new.folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    header = read_header(saved) | {"run": to_json(new.run)}
    copy_rows(saved, checkpoint_path(temporary, step_of(saved)), rows, header)
    with open(temporary / METRICS_FILE, "w", encoding="ascii") as file:
        for record in read_records(old.folder):
            if record[STEP] <= step_of(saved):
                own = {
                    name: [value[row] for row in rows] if isinstance(value, list) else value
                    for name, value in record.items()
                }
                file.write(json.dumps(own) + "\n")
    write_run(new.run, temporary)
    os.rename(temporary, new.folder)


def _named(choices: Mapping[int, Choice]) -> str:
    """The trials in a few words.

    >>> _named({3: {}}), _named({3: {}, 5: {}}), _named({number: {} for number in range(8)})
    ('trial 3', 'trials 3 5', 'trials 0 to 7')
    """
    numbers = list(choices)
    if len(numbers) > 3:
        return f"trials {numbers[0]} to {numbers[-1]}"
    return f"trial{'s' if len(numbers) > 1 else ''} {' '.join(map(str, numbers))}"
