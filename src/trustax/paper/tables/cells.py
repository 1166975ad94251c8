"""What stands in a cell of a table: ours, the paper's, and whether they are the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from jaxtyping import Float
from numpy import ndarray

from trustax.cli.formatting import short_count
from trustax.paper.statistics import Summary, cohens_d, summary
from trustax.paper.tables.targets import Target

Verdict = Literal["matches", "differs, better", "differs, worse", "short", "not run", ""]
"""Empty where it ran in full, and the paper gives no number, or none that it could be held to."""
INDIFFERENT = 0.5
"""Below this effect size the paper underlines a result together with the best."""


class Sample(NamedTuple):
    """The scores that were found for a cell, one of each seed."""

    scores: Float[ndarray, " seed"]
    steps: int
    is_short: bool = False
    """trained for fewer steps than the paper"""
    choice: str = ""
    """the setting that was best, and of how many, where a row stands for several"""


@dataclass(frozen=True)
class Entry:
    """A cell, ready to be shown."""

    target: Target | None
    verdict: Verdict
    ours: Summary | None = None
    steps: int = 0
    choice: str = ""
    mark: Literal["best", "close", ""] = ""

    def says(self) -> str:
        """The verdict in words.

        >>> Entry(None, "short", steps=983_040).says()
        'short, 983k'
        """
        return f"short, {short_count(self.steps)}" if self.verdict == "short" else self.verdict


def entry(sample: Sample | None, target: Target | None) -> Entry:
    """The cell of a sample, or of none."""
    if sample is None:
        return Entry(target, "not run")
    ours = summary(sample.scores)
    return Entry(target, "short" if sample.is_short else verdict(ours.mean, target), ours, sample.steps, sample.choice)


def verdict(mean: float, target: Target | None) -> Verdict:
    """Whether our mean is the paper's: within one standard deviation of its runs, above or below alike.

    Were the two the same method, five runs against five would pass 77 times of 100. The paper's yardstick between
    methods, Cohen's d < 0.5, they would pass 55 times. It is not used here because it pools both deviations: it would
    add only cases where ours is more than 2.6 times the paper's, and so reward runs that scatter. The reverse remains:
    much matches a number of the paper's whose own runs scatter, and its ± stands beside it for that reason.

    >>> target = Target(263.04, 11.48)
    >>> verdict(252.0, target), verdict(251.0, target), verdict(275.0, target), verdict(1.0, None)
    ('matches', 'differs, worse', 'differs, better', '')
    """
    if target is None or target.tolerance is None:
        return ""
    if abs(mean - target.mean) <= target.tolerance:
        return "matches"
    return "differs, better" if mean > target.mean else "differs, worse"


def marked(column: Sequence[Entry]) -> list[Entry]:
    """A column with the best mean marked, and those that Cohen's d does not tell from it.

    Only those that were trained longest are compared, and nothing is best that stands alone.
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
