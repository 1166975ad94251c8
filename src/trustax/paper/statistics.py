"""What the scores of a few runs say: averages, effect sizes, and how sure of them one can be.

`Scores` are one array of runs for each task. Tasks may differ in their number of runs; resampling stays within a task.
The measures over several tasks are those of Agarwal et al. (2021), *Deep Reinforcement Learning at the Edge of the
Statistical Precipice*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Runs = Float[np.ndarray, " _"]
Scores = Sequence[Runs]


@dataclass(frozen=True)
class Summary:
    """The runs of a cell as a table shows them."""

    mean: float
    std: float
    count: int


def summary(runs: Runs) -> Summary:
    """Mean and standard deviation over runs.

    The deviation divides by the number of runs, as NumPy does unless told otherwise and as our curves do: most likely
    the paper's ± is the same. Over five runs, dividing by one less gives 12 % more.

    >>> summary(np.array([1.0, 3.0]))
    Summary(mean=2.0, std=1.0, count=2)
    """
    return Summary(float(runs.mean()), float(runs.std()), len(runs))


def cohens_d(first: Summary, second: Summary) -> float:
    """How many pooled standard deviations lie between two means; NaN where no spread is known: one run on either side.

    The pooled deviation is the unbiased one, Σ (x - x̄)² / (n₁ + n₂ - 2). Positive where the first is higher.

    >>> round(cohens_d(summary(np.array([3.0, 5.0])), summary(np.array([1.0, 3.0]))), 3)
    1.414
    """
    if min(first.count, second.count) < 2:
        return float("nan")
    squares = first.count * first.std**2 + second.count * second.std**2
    pooled = np.sqrt(squares / (first.count + second.count - 2))
    difference = first.mean - second.mean
    if pooled == 0:
        return float(np.copysign(np.inf, difference)) if difference else 0.0
    return float(difference / pooled)


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs of all tasks: hardly moved by outliers, less noisy than the median.

    >>> interquartile_mean([np.array([0.0, 1.0]), np.array([2.0, 900.0])])
    1.5
    """
    ordered = np.sort(np.concatenate(scores))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def probability_of_improvement(first: Scores, second: Scores) -> float:
    """How likely a run of the first scores higher than one of the second, on a task picked at random.

    A tie counts half. 0.5 says that neither is better.

    >>> probability_of_improvement([np.array([2.0, 3.0])], [np.array([1.0, 3.0])])
    0.625
    """
    return float(np.mean([_wins(ours, theirs) for ours, theirs in zip(first, second, strict=True)]))


def _wins(ours: Runs, theirs: Runs) -> float:
    difference = ours[:, None] - theirs[None, :]
    return float(np.mean((np.sign(difference) + 1) / 2))


def performance_profile(scores: Scores, thresholds: Runs) -> Runs:
    """The fraction of runs that score above each threshold, averaged over tasks.

    >>> performance_profile([np.array([0.2, 0.8])], np.array([0.0, 0.5, 0.8])).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.mean([(runs[:, None] > thresholds[None, :]).mean(axis=0) for runs in scores], axis=0)


def bootstrap_interval(
    statistic: Callable[..., Any],
    *methods: Scores,
    confidence: float = 0.95,
    repeats: int = 2000,
    seed: int = 0,
) -> Float[np.ndarray, "2 ..."]:
    """Lower and upper bound of a statistic of one or more methods' scores, by resampling the runs within each task.

    The percentile bootstrap. Tasks are not resampled: the interval speaks of other runs on the same tasks. A single
    run cannot be resampled, and its interval is a point.

    >>> low, high = bootstrap_interval(interquartile_mean, [np.array([1.0, 2.0, 3.0])])
    >>> low, high
    (np.float64(1.0), np.float64(3.0))
    """
    random = np.random.default_rng(seed)
    resampled = [[runs[random.integers(len(runs), size=(repeats, len(runs)))] for runs in scores] for scores in methods]
    values = [statistic(*([runs[repeat] for runs in scores] for scores in resampled)) for repeat in range(repeats)]
    outside = (1 - confidence) / 2
    return np.quantile(np.array(values, dtype=float), [outside, 1 - outside], axis=0)


def rescaled(scores: Runs, zero: float, one: float) -> Runs:
    """Scores on the scale on which `zero` is 0 and `one` is 1.

    >>> rescaled(np.array([-5.0, 15.0]), zero=-5.0, one=5.0).tolist()
    [0.0, 2.0]
    """
    return (scores - zero) / (one - zero)


def human_normalized(scores: Runs, random: float, human: float) -> Runs:
    """Scores of a game in per cent of what a human has above random play.

    >>> human_normalized(np.array([1.7, 30.5, 59.3]), random=1.7, human=30.5).round(1).tolist()
    [0.0, 100.0, 200.0]
    """
    return 100 * rescaled(scores, random, human)
