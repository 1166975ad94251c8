"""The scores behind a table: those of our runs for each row and column, where there are any."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trustax.cli.formatting import short_count
from trustax.paper.experiments import EXPERIMENTS, PROTOCOLS, Cell
from trustax.paper.results import Outcome, find
from trustax.paper.tables.cells import Sample
from trustax.paper.tables.layout import Column
from trustax.paper.tables.targets import BEST_OF, HUMAN_SCORES
from trustax.paper.tasks import TASKS
from trustax.run import Run
from trustax.sweeps.statistics import Runs, bootstrap_interval, human_normalized

Samples = dict[str, dict[str, Sample | None]]
"""By row and column."""
Measure = Callable[[Outcome], Runs]

BEST = ", best"
"""Ends the key of a column with the best window of each run. It is compared with the same numbers of the paper as the
last window, because the paper does not say which of the two it reports."""
DIGITS = {
    **{"table-1": 2, "table-1-full": 2, "table-2": 0, "minigrid": 2},
    **{"ablation": 1, "ablation-full": 1, "ablation-default": 2},
}


class Measured(NamedTuple):
    """A column that outcomes give directly; other columns are derived from these."""

    column: Column
    task: str
    measure: Measure


def samples_of(name: str, protocol: str, outcomes: Sequence[Outcome]) -> tuple[list[Column], Samples]:
    """The columns of a table, and the scores of each row."""
    measured = [column for task in EXPERIMENTS[name].tasks for column in _measured(name, task)]
    samples = _found(name, protocol, measured, outcomes)
    return [column for column, _, _ in measured] + _derived(name, samples), samples


def _measured(name: str, task: str) -> list[Measured]:
    heading = f"{task}, {short_count(TASKS[task].total_timesteps)}"
    match name:
        case "cost":
            return [Measured(Column(task, "steps per second"), task, _speed)]
        case "table-3":
            return [Measured(Column(task, heading, 1), task, lambda outcome: _human_normalized_best(outcome, task))]
        case "table-1" | "table-1-full" | "table-2":
            best = Column(f"{task}{BEST}", f"{task}, best window", DIGITS[name])
            return [Measured(Column(task, heading, DIGITS[name]), task, _final), Measured(best, task, _best_window)]
        case "minigrid":
            success = Column(f"{task} success", f"{task}, success rate", 2)
            return [Measured(Column(task, heading, 2), task, _final), Measured(success, task, _success)]
        case _:
            return [Measured(Column(task, heading, DIGITS[name]), task, _final)]


def _final(outcome: Outcome) -> Runs:
    return outcome.final


def _best_window(outcome: Outcome) -> Runs:
    return outcome.best


def _success(outcome: Outcome) -> Runs:
    return np.array([]) if outcome.successes is None else outcome.successes[:, -1]


def _speed(outcome: Outcome) -> Runs:
    return np.array([outcome.steps_per_second])


def _human_normalized_best(outcome: Outcome, task: str) -> Runs:
    return human_normalized(outcome.best, *HUMAN_SCORES[task])


def _found(name: str, protocol: str, columns: Sequence[Measured], outcomes: Sequence[Outcome]) -> Samples:
    # Speed does not depend on the protocol, and is measured under one of them.
    protocols = PROTOCOLS if name == "cost" else [protocol]
    cells = [cell for each in protocols for cell in EXPERIMENTS[name].cells(each)]
    return {
        row: {
            column.key: _best(row, methods, [cell for cell in cells if cell.task == task], measure, outcomes)
            for column, task, measure in columns
        }
        for row, methods in _rows(name).items()
    }


def _rows(name: str) -> dict[str, list[str]]:
    """The rows, each with the methods of which it shows the best."""
    experiment = EXPERIMENTS[name]
    paper = BEST_OF if name == "table-2" else {method: [method] for method in experiment.methods}
    return paper | {variant: [variant] for variant in experiment.variants}


def _best(
    row: str, methods: Sequence[str], cells: Sequence[Cell], measure: Measure, outcomes: Sequence[Outcome]
) -> Sample | None:
    """The best mean among the settings with the most training steps."""
    runs = [(cell.method, cell.run) for cell in cells if cell.method in methods]
    found = {method: sample for method, run in runs if (sample := _sample(outcomes, method, run, measure))}
    longest = max((sample.steps for sample in found.values()), default=0)
    rivals = {method: sample for method, sample in found.items() if sample.steps == longest}
    best = max(rivals, key=lambda method: rivals[method].scores.mean(), default=None)
    if best is None or len(methods) == 1:
        return found.get(methods[0])
    how_many = "" if len(rivals) == len(methods) else f"({len(rivals)} of {len(methods)})"
    choice = [best.removeprefix(row).strip(), how_many, rivals[best].choice]
    return rivals[best]._replace(choice=" ".join(filter(None, choice)))


def _sample(outcomes: Sequence[Outcome], method: str, run: Run, measure: Measure) -> Sample | None:
    """The run of the paper's length or, if there is none, the longest one."""
    exact = [outcome for outcome in outcomes if outcome.run.total_timesteps == run.total_timesteps]
    outcome = find(exact, method, run) or find(outcomes, method, run)
    if outcome is None:
        return None
    scores = measure(outcome)
    scores = scores[np.isfinite(scores)]
    steps, budget = outcome.steps[-1], run.num_iterations * run.batch_size
    longer = f"{short_count(steps)} steps" if steps > budget else ""
    return Sample(scores, steps, steps < budget, longer) if len(scores) else None


def _derived(name: str, samples: Samples) -> list[Column]:
    """Add columns that are derived from others, and return them."""
    if name == "table-3":
        for row in samples.values():
            row |= {"mean": _over_games(row, np.mean), "median": _over_games(row, np.median)}
        return [Column(key, key, 2, counted=False) for key in ("mean", "median")]
    if name == "ablation":
        _compare(samples, "bipedal-walker-hardcore", "MCPO N=10", "margin", np.subtract)
        return [Column("margin", "margin to MCPO N=10", 1, counted=False)]
    if name == "cost":
        _compare(samples, "pendulum", "PPO ε=0.2", "ratio", np.divide)
        return [Column("ratio", "÷ PPO", 2, counted=False)]
    return []


def _over_games(row: Mapping[str, Sample | None], average: Callable[[list[float]], np.floating]) -> Sample | None:
    games = [row[task] for task in EXPERIMENTS["table-3"].tasks]
    ran = [game for game in games if game is not None]
    if len(ran) < len(games):
        return None
    value = average([float(game.scores.mean()) for game in ran])
    return Sample(np.array([value]), min(game.steps for game in ran), any(game.is_short for game in ran))


def _compare(samples: Samples, task: str, reference: str, key: str, compare: Callable[..., Runs]) -> None:
    other = samples[reference][task]
    for row in samples.values():
        own = row[task]
        row[key] = None
        if own is not None and other is not None:
            row[key] = Sample(
                compare(own.scores, other.scores.mean()),
                min(own.steps, other.steps),
                own.is_short or other.is_short,
                interval=_interval_of_comparison(compare, own.scores, other.scores),
            )


def _interval_of_comparison(compare: Callable[..., Runs], first: Runs, second: Runs) -> tuple[float, float]:
    """The 95% interval of the difference or the ratio of two means; the runs of both are resampled."""
    low, high = bootstrap_interval(
        lambda one, other: compare(one[0].mean(axis=-1), other[0].mean(axis=-1)), [first], [second]
    )
    return float(low), float(high)
