"""Statistics over a few runs: averages, effect sizes and confidence intervals.

`Scores` hold one array of runs per task. Tasks may have different numbers of runs; resampling stays within a task. The
aggregate measures follow Agarwal et al. (2021), *Deep Reinforcement Learning at the Edge of the Statistical Precipice*.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from jaxtyping import Float

Runs = Float[np.ndarray, " _"]
Scores = Sequence[Float[np.ndarray, "..."]]
"""One array of runs for each task, in its last axis. The axes before it, such as resamples, are kept by a statistic."""
Values = Float[np.ndarray, "..."] | float


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and number of the runs of a table cell."""

    mean: float
    std: float
    count: int


def summary(runs: Runs) -> Summary:
    """Mean and standard deviation over runs.

    The standard deviation divides by the number of runs, as NumPy does by default and as our curves do. The paper's ±
    is most likely the same. For five runs, dividing by n - 1 would give a 12% larger value.

    >>> summary(np.array([1.0, 3.0]))
    Summary(mean=2.0, std=1.0, count=2)
    """
    return Summary(float(runs.mean()), float(runs.std()), len(runs))


def cohens_d(first: Summary, second: Summary) -> float:
    """The difference of two means in pooled standard deviations; NaN if either side has only one run.

    The pooled variance is unbiased: Σ (x - x̄)² / (n₁ + n₂ - 2). The result is positive if the first mean is higher.

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


def interquartile_mean(scores: Scores) -> Values:
    """The mean of the middle half of all runs of all tasks: robust to outliers, less noisy than the median.

    Runs are repeated where tasks have different numbers of them, so that every task has the same weight.

    >>> float(interquartile_mean([np.array([0.0, 1.0]), np.array([2.0, 900.0])]))
    1.5
    >>> float(interquartile_mean([np.array([0.0, 0.0, 0.0]), np.array([1.0])]))
    0.5
    """
    counts = [runs.shape[-1] for runs in scores]
    repeated = [np.repeat(runs, lcm(*counts) // count, axis=-1) for runs, count in zip(scores, counts, strict=True)]
    ordered = np.sort(np.concatenate(repeated, axis=-1))
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(first: Scores, second: Scores) -> Values:
    """The probability that a run of the first method scores higher than one of the second, on a random task.

    A tie counts half. At 0.5 neither method is better.

    >>> float(probability_of_improvement([np.array([2.0, 3.0])], [np.array([1.0, 3.0])]))
    0.625
    """
    differences = [ours[..., :, None] - theirs[..., None, :] for ours, theirs in zip(first, second, strict=True)]
    return np.mean([((np.sign(each) + 1) / 2).mean(axis=(-2, -1)) for each in differences], axis=0)


def performance_profile(scores: Scores, thresholds: Runs) -> Float[np.ndarray, "... threshold"]:
    """The fraction of runs that score above each threshold, averaged over tasks.

    >>> performance_profile([np.array([0.2, 0.8])], np.array([0.0, 0.5, 0.8])).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.mean([(runs[..., :, None] > thresholds).mean(axis=-2) for runs in scores], axis=0)


def bootstrap_interval(
    statistic: Callable[..., Any],
    *methods: Scores,
    confidence: float = 0.95,
    repeats: int = 2000,
    seed: int = 0,
) -> Float[np.ndarray, "2 ..."]:
    """The percentile-bootstrap confidence interval of a statistic of one or more methods' scores.

    Runs are resampled within each task and tasks are not resampled, so the interval describes other runs on the same
    tasks. The interval of a single run is a point. The statistic gets all resamples at once, in the first axis.

    >>> bootstrap_interval(interquartile_mean, [np.array([1.0, 2.0, 3.0])]).tolist()
    [1.0, 3.0]
    """
    random = np.random.default_rng(seed)
    resampled = [[runs[random.integers(len(runs), size=(repeats, len(runs)))] for runs in scores] for scores in methods]
    outside = (1 - confidence) / 2
    return np.quantile(statistic(*resampled), [outside, 1 - outside], axis=0)


def mean_interval(runs: Runs, confidence: float = 0.95) -> tuple[float, float]:
    """`bootstrap_interval` of the mean of one task's runs.

    >>> mean_interval(np.array([1.0, 2.0, 3.0]))
    (1.0, 3.0)
    """
    low, high = bootstrap_interval(lambda scores: scores[0].mean(axis=-1), [runs], confidence=confidence)
    return float(low), float(high)


def rescaled(scores: Runs, zero: float, one: float) -> Runs:
    """Rescale scores linearly such that `zero` maps to 0 and `one` maps to 1.

    >>> rescaled(np.array([-5.0, 15.0]), zero=-5.0, one=5.0).tolist()
    [0.0, 2.0]
    """
    return (scores - zero) / (one - zero)


def human_normalized(scores: Runs, random: float, human: float) -> Runs:
    """Human-normalized scores of a game in percent: 0 is random play, 100 is a human.

    >>> human_normalized(np.array([1.7, 30.5, 59.3]), random=1.7, human=30.5).round(1).tolist()
    [0.0, 100.0, 200.0]
    """
    return 100 * rescaled(scores, random, human)
