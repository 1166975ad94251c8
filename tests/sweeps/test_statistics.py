"""The measures agree with rliable 1.2.0, which gave the numbers below for these scores, and with a textbook."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from trustax.sweeps.statistics import (
    Summary,
    bootstrap_interval,
    cohens_d,
    human_normalized,
    interquartile_mean,
    mean_interval,
    performance_profile,
    probability_of_improvement,
    rescaled,
    summary,
)

# Three tasks, with five and with four runs.
FIRST = list(np.array([[0.1, 0.3, 0.2, 0.6, 0.4], [0.9, 0.7, 0.8, 0.7, 1.0], [0.4, 0.5, 0.9, 0.1, 0.3]]))
SECOND = list(np.array([[0.2, 0.1, 0.3, 0.2], [0.5, 0.7, 0.6, 0.9], [0.4, 0.2, 0.8, 0.1]]))
THRESHOLDS = np.array([0.0, 0.1, 0.25, 0.5, 0.7, 0.95])
# rliable's intervals with 20,000 resamples varied by up to 0.001 with the seed. Ours have 2,000.
NOISE = 0.03


def test_the_interquartile_mean_agrees_with_rliable() -> None:
    assert interquartile_mean(FIRST) == pytest.approx(0.5222222222222223, abs=1e-12)
    assert interquartile_mean(SECOND) == pytest.approx(0.3666666666666667, abs=1e-12)


def test_the_probability_of_improvement_agrees_with_rliable() -> None:
    assert probability_of_improvement(FIRST, SECOND) == pytest.approx(0.6916666666666668, abs=1e-12)
    assert probability_of_improvement(SECOND, FIRST) == pytest.approx(0.30833333333333335, abs=1e-12)


def test_the_performance_profile_agrees_with_rliable() -> None:
    profile = performance_profile(FIRST, THRESHOLDS)
    np.testing.assert_allclose(profile, [1.0, 0.86666667, 0.8, 0.46666667, 0.26666667, 0.06666667], atol=1e-8)


def test_the_intervals_agree_with_rliable() -> None:
    np.testing.assert_allclose(bootstrap_interval(interquartile_mean, FIRST), [0.4, 0.65555556], atol=NOISE)
    np.testing.assert_allclose(
        bootstrap_interval(probability_of_improvement, FIRST, SECOND), [0.48333333, 0.88333333], atol=NOISE
    )
    # A profile has steps of 1/15, so an interval may differ by one step.
    low, high = bootstrap_interval(partial(performance_profile, thresholds=THRESHOLDS), FIRST)
    np.testing.assert_allclose(low, [1.0, 0.66666667, 0.6, 0.33333333, 0.06666667, 0.0], atol=1 / 15 + 1e-8)
    np.testing.assert_allclose(high, [1.0, 1.0, 1.0, 0.66666667, 0.46666667, 0.2], atol=1 / 15 + 1e-8)


def test_mean_and_deviation_divide_by_the_number_of_runs() -> None:
    assert summary(np.array([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])) == Summary(5.0, 2.0, 8)
    assert summary(np.array([3.0])) == Summary(3.0, 0.0, 1)


def test_cohens_d_pools_unbiased_variances() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 8.0])
    pooled = np.sqrt((2 * first.var(ddof=1) + 3 * second.var(ddof=1)) / 5)
    assert cohens_d(summary(first), summary(second)) == pytest.approx(-3 / pooled)
    assert cohens_d(summary(second), summary(first)) == pytest.approx(3 / pooled)


def test_cohens_d_without_spread_is_zero_infinite_or_nan() -> None:
    same, higher, single = Summary(1.0, 0.0, 3), Summary(2.0, 0.0, 3), Summary(2.0, 0.0, 1)
    assert cohens_d(same, same) == 0
    assert cohens_d(same, higher) == -np.inf
    assert np.isnan(cohens_d(single, higher))


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end_rounded_down() -> None:
    assert interquartile_mean([np.array([-99.0, 2.0, 3.0, 4.0, 99.0])]) == 3.0
    assert interquartile_mean([np.array([1.0, 2.0, 6.0])]) == 3.0
    assert interquartile_mean([np.array([7.0])]) == 7.0


def test_a_tie_counts_half_and_both_directions_add_up_to_one() -> None:
    runs = [np.array([1.0, 1.0]), np.array([0.0, 5.0])]
    assert probability_of_improvement(runs, runs) == 0.5
    assert probability_of_improvement(FIRST, SECOND) + probability_of_improvement(SECOND, FIRST) == pytest.approx(1)


def test_tasks_have_equal_weight_for_any_number_of_runs() -> None:
    many, few = np.ones(9), np.array([0.0])
    assert performance_profile([many, few], np.array([0.5])).tolist() == [0.5]
    assert interquartile_mean([many, few]) == 0.5
    # By hand: 2, 2, 2, 3, 3 and 4 are the middle half of three times -99 and 2, and twice 3, 4 and 99.
    assert interquartile_mean([np.array([-99.0, 2.0]), np.array([3.0, 4.0, 99.0])]) == pytest.approx(16 / 6)
    assert probability_of_improvement([many, few], [np.zeros(2), np.ones(2)]) == 0.5


def test_the_interval_of_a_mean_has_the_quantiles_of_the_resampled_means() -> None:
    runs = FIRST[0]
    resampled = runs[np.random.default_rng(0).integers(len(runs), size=(2000, len(runs)))]
    np.testing.assert_allclose(mean_interval(runs), np.quantile([np.mean(row) for row in resampled], [0.025, 0.975]))


@pytest.mark.parametrize(
    "statistic",
    [interquartile_mean, probability_of_improvement, partial(performance_profile, thresholds=THRESHOLDS)],
)
def test_a_statistic_of_many_resamples_is_that_of_each(statistic: Any) -> None:
    methods = [FIRST, SECOND] if statistic is probability_of_improvement else [FIRST]
    resamples = [[np.stack([runs, runs[::-1] + 0.1, np.sort(runs)]) for runs in scores] for scores in methods]
    each = [statistic(*([runs[number] for runs in scores] for scores in resamples)) for number in range(3)]
    np.testing.assert_allclose(statistic(*resamples), each)


def test_resampling_stays_within_a_task() -> None:
    np.testing.assert_array_equal(bootstrap_interval(interquartile_mean, [np.ones(4), np.full(4, 5.0)]), [3.0, 3.0])


def test_an_interval_is_deterministic_and_wider_for_more_confidence() -> None:
    first, again = (bootstrap_interval(interquartile_mean, FIRST) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    half = bootstrap_interval(interquartile_mean, FIRST, confidence=0.5)
    assert first[0] < half[0] < interquartile_mean(FIRST) < half[1] < first[1]


def test_scores_are_rescaled_linearly() -> None:
    np.testing.assert_allclose(rescaled(np.array([-3.0, 1.0, 5.0]), zero=1.0, one=5.0), [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(human_normalized(np.array([5.0, 20.0, 35.0]), random=5.0, human=25.0), [0, 75, 150])
