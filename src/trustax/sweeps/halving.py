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
from trustax.sweeps.objectives import Objective
from trustax.sweeps.pool import Failure
from trustax.sweeps.ranges import is_mapped
from trustax.sweeps.worker import Job, finished_records

Choice = Mapping[str, Any]
Train = Callable[[Sequence[Job]], list[Failure]]
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

    def job(self, steps: int) -> Job:
        """Train the run up to the iteration that reaches this many steps: at least the second one, at most the last."""
        iterations = min(self.run.num_iterations, max(2, ceil(steps / self.run.batch_size)))
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


def rungs(run: Run, reduction: int) -> list[int]:
    """The environment steps of each seed after which trials are compared; the last number is the total of the run.

    The steps are those of iterations of the run with its default settings. The first iteration is collected before any
    update, so trials are not compared after it.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(), env_id="CartPole-v1", num_envs=1, horizon=100, total_timesteps=1250)
    >>> rungs(run, reduction=3), rungs(run, reduction=1)
    ([200, 400, 1250], [1250])
    """
    count = run.num_iterations
    levels = range(1, LEVELS) if reduction > 1 else range(0)
    numbers = {max(2, ceil(count / reduction**level)) for level in levels}
    return [*(number * run.batch_size for number in sorted(numbers) if number < count), run.total_timesteps]


def planned_steps(run: Run, num_trials: int, reduction: int) -> int:
    """Environment steps of a generation, of all its learners.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(), env_id="CartPole-v1", total_timesteps=12 * 8192)
    >>> planned_steps(run, 8, reduction=3) / planned_steps(run, 8, reduction=1)
    0.3125
    """
    total, before, alive = 0, 0, num_trials
    for rung in (*rungs(run, reduction)[:-1], run.num_iterations * run.batch_size):
        total += alive * (rung - before)
        before, alive = rung, ceil(alive / reduction)
    return total * run.num_seeds


def halve(
    base: Run,
    choices: Mapping[int, Choice],
    folder: Path,
    reduction: int,
    train: Train,
    objective: Objective,
    report: Report,
) -> dict[int, TrialOutcome]:
    """Train a generation of trials; return how each ended."""
    groups, outcomes = _grouped(base, choices, folder)
    levels = rungs(base, reduction)
    for level in levels:
        groups, failed = _trained(base, groups, level, train)
        outcomes |= failed
        scores: dict[int, float] = {}
        for group in groups:
            records, steps = _records(group, level), group.job(level).steps
            for number in group.choices:
                report(number, records, group.learners(number))
                scores[number] = objective(records, group.learners(number))
                outcomes[number] = TrialOutcome("pruned", steps, scores[number])
        if level != levels[-1]:
            kept = _best(scores, ceil(len(scores) / reduction))
            groups = [smaller for group in groups if (smaller := group.restricted(base, kept))]
    for number in (number for group in groups for number in group.choices):
        found = outcomes[number]
        failed_reason = "" if isfinite(found.value) else "no episode has ended; raise total_timesteps"
        outcomes[number] = found._replace(state="failed" if failed_reason else "complete", reason=failed_reason)
    return outcomes


def _best(scores: Mapping[int, float], count: int) -> list[int]:
    """The trials with the highest scores; all of them if no score is known yet.

    >>> nan = float("nan")
    >>> _best({3: 1.0, 4: nan, 5: 2.0}, 2), _best({3: nan, 4: nan}, 1)
    ([5, 3], [3, 4])
    """
    known = {number: value if isfinite(value) else -inf for number, value in scores.items()}
    if not any(map(isfinite, known.values())):
        return list(known)
    return sorted(known, key=lambda number: -known[number])[:count]


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
    base: Run, groups: Sequence[TrialGroup], steps: int, train: Train
) -> tuple[list[TrialGroup], dict[int, TrialOutcome]]:
    """Train all groups up to a number of steps. Trials that diverge fail, and the others continue."""
    outcomes: dict[int, TrialOutcome] = {}
    finished = list(groups)
    while jobs := [job for group in finished if _is_unfinished(job := group.job(steps))]:
        failures = {failure.job.folder: failure.reason for failure in train(jobs)}
        for group in [group for group in finished if group.folder in failures]:
            reason = failures[group.folder]
            diverged = _diverged(group)
            if not diverged:
                raise TrustaxError(f"{_named(group.choices)}: {reason}")
            last = read_records(group.folder)[-1][STEP]
            outcomes |= {number: TrialOutcome("failed", last, float("nan"), reason) for number in diverged}
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


def _records(group: TrialGroup, steps: int) -> Sequence[Record]:
    records = finished_records(group.run, group.folder, group.job(steps).stop_at)
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
