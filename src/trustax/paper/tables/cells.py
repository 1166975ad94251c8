"""A cell of a table: our runs, the paper's number, and the verdict on whether they match."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from jaxtyping import Float
from numpy import ndarray

from trustax.cli.formatting import short_count
from trustax.paper.tables.targets import Target
from trustax.sweeps.statistics import Summary, cohens_d, mean_interval, summary

Verdict = Literal["matches", "differs, better", "differs, worse", "short", "not run", ""]
"""Empty for a full run where the paper gives no number, or a number without a spread."""
INDIFFERENT = 0.5
"""Cohen's d below which the paper underlines a result together with the best one."""


class Sample(NamedTuple):
    """The scores of a cell, one for each seed."""

    scores: Float[ndarray, " seed"]
    steps: int
    is_short: bool = False
    """trained for fewer steps than the paper"""
    choice: str = ""
    """the best setting, where a row stands for several of them"""
    interval: tuple[float, float] | None = None
    """the interval of the mean, where the scores alone do not give it"""


@dataclass(frozen=True)
class Entry:
    """A cell as the tables show it."""

    target: Target | None
    verdict: Verdict
    ours: Summary | None = None
    interval: tuple[float, float] | None = None
    """95% bootstrap interval of our mean; None without runs"""
    solved: int | None = None
    """how many seeds solve the task; None for a task without a threshold"""
    steps: int = 0
    choice: str = ""
    mark: Literal["best", "close", ""] = ""

    def says(self) -> str:
        """The verdict in words.

        >>> Entry(None, "short", steps=983_040).says()
        'short, 983k'
        """
        return f"short, {short_count(self.steps)}" if self.verdict == "short" else self.verdict


def entry(sample: Sample | None, target: Target | None, solved_at: float | None = None) -> Entry:
    """The cell of a sample, or an empty one. A seed solves the task if its score is at least `solved_at`."""
    if sample is None:
        return Entry(target, "not run")
    interval = sample.interval or mean_interval(sample.scores)
    return Entry(
        target,
        "short" if sample.is_short else verdict(interval, target),
        summary(sample.scores),
        interval,
        None if solved_at is None else int((sample.scores >= solved_at).sum()),
        sample.steps,
        sample.choice,
    )


def verdict(interval: tuple[float, float], target: Target | None) -> Verdict:
    """Whether the 95% interval of our mean overlaps that of the paper's mean.

    Ours is a bootstrap interval over the seeds. The paper's is mean ± t·std/√n with its n = 5 runs, because its single
    runs are unknown (`Target.tolerance`). "matches" says that the runs show no difference, not that there is none. For
    normal scores and five runs against five, two equal methods match 98 times in 100, and two whose means lie two
    standard deviations apart still match 39 times. Rows in which some seeds fail have wide intervals and match easily:
    read the interval and the number of solved seeds with the verdict.

    >>> target = Target(263.04, 11.48)  # 248.8 to 277.3
    >>> verdict((240.0, 250.0), target), verdict((240.0, 248.0), target), verdict((278.0, 290.0), target)
    ('matches', 'differs, worse', 'differs, better')
    """
    if target is None or target.tolerance is None:
        return ""
    low, high = interval
    if high < target.mean - target.tolerance:
        return "differs, worse"
    return "differs, better" if low > target.mean + target.tolerance else "matches"


def marked(column: Sequence[Entry]) -> list[Entry]:
    """Mark the best mean of a column, and those within Cohen's d < 0.5 of it.

    Only the cells with the most training steps are compared, and a single one gets no mark.
    """
    longest = max((cell.steps for cell in column if cell.ours), default=0)
    rivals = [cell.ours for cell in column if cell.ours and cell.steps == longest]
    if len(rivals) < 2:
        return list(column)
    best = max(rivals, key=lambda ours: ours.mean)
    return [
        replace(cell, mark=_mark(cell.ours, best)) if cell.ours and cell.steps == longest else cell for cell in column
    ]


def _mark(ours: Summary, best: Summary) -> Literal["best", "close", ""]:
    if ours.mean == best.mean:
        return "best"
    return "close" if abs(cohens_d(ours, best)) < INDIFFERENT else ""
