"""Each equation on hand-made numbers, with rows that do not count."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.distributions import Categorical
from trustax.ops.objectives import (
    LOG_RATIO_LIMIT,
    adapt_kl_cost,
    clipped_gain,
    clipped_value_error,
    expectation,
    expectations,
    explained_variance,
    importance_ratio,
    kl_to_old,
    squared_error,
    standardize,
    surrogate,
)

WEIGHT = jnp.array([1.0, 1.0, 0.0, 1.0, 0.0])
COUNTED = np.array([True, True, False, True, False])
RATIO = jnp.array([0.5, 1.0, 9.0, 2.0, -9.0])
ADVANTAGE = jnp.array([2.0, -1.0, 9.0, 3.0, 9.0])


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


def samples(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def test_expectation_is_the_mean_of_the_rows_that_count() -> None:
    close(expectation(RATIO, WEIGHT), 3.5 / 3)
    close(jax.vmap(expectation)(RATIO[None], WEIGHT[None]), [3.5 / 3])
    close(expectation(RATIO, jnp.zeros(5)), 0.0)


@pytest.mark.parametrize("shape", [(60,), (12, 5)])
def test_standardize_uses_the_moments_of_the_rows_that_count(shape: tuple[int, ...]) -> None:
    x = 3 * samples(60) + 7
    counted = np.random.default_rng(1).random(60) < 0.7
    exact = x.astype(np.float64)
    expected = (exact - exact[counted].mean()) / (exact[counted].std() + 1e-5)
    weight = jnp.asarray(counted, jnp.float32)
    got = jax.jit(standardize)(jnp.asarray(x).reshape(shape), weight.reshape(shape))
    np.testing.assert_allclose(got.ravel(), expected, rtol=1e-5, atol=1e-5)


def test_standardize_of_equal_samples_is_zero() -> None:
    close(standardize(jnp.full(4, 2.0), jnp.ones(4)), np.zeros(4))
    assert np.isfinite(standardize(jnp.full(4, 2.0), jnp.zeros(4))).all()


def test_importance_ratio_is_the_quotient_of_probabilities() -> None:
    close(importance_ratio(jnp.log(jnp.array([0.3, 0.2])), jnp.log(jnp.array([0.6, 0.1]))), [0.5, 2.0])


def test_importance_ratio_is_clamped_only_where_it_would_overflow() -> None:
    log_ratio = jnp.array([-200.0, -19.0, 19.0, 200.0])
    ratio = importance_ratio(log_ratio, jnp.zeros(4))
    close(ratio, np.exp([-LOG_RATIO_LIMIT, -19.0, 19.0, LOG_RATIO_LIMIT]))
    slope = jax.grad(lambda x: importance_ratio(x, jnp.zeros(4)).sum())(log_ratio)
    close(slope, [0.0, ratio[1], ratio[2], 0.0])


@pytest.mark.parametrize(
    ("estimator", "reverse", "expected"),
    [
        ("k1", False, [-np.log(2.0), -np.log(0.5)]),
        ("k2", False, [0.5 * np.log(2.0) ** 2, 0.5 * np.log(0.5) ** 2]),
        ("k3", False, [1.0 - np.log(2.0), -0.5 - np.log(0.5)]),
        ("k1", True, [2.0 * np.log(2.0), 0.5 * np.log(0.5)]),
        ("k2", True, [0.5 * np.log(2.0) ** 2, 0.5 * np.log(0.5) ** 2]),
        ("k3", True, [2.0 * np.log(2.0) - 1.0, 0.5 * np.log(0.5) + 0.5]),
    ],
)
def test_kl_from_the_taken_actions(estimator: Any, reverse: bool, expected: list[float]) -> None:
    old = Categorical(jnp.log(jnp.array([[0.3, 0.7], [0.4, 0.6]])))
    new = Categorical(jnp.log(jnp.array([[0.6, 0.4], [0.7, 0.3]])))
    action = jnp.array([0, 1])  # r is 2 and ½
    close(kl_to_old(new, old, action, estimator, reverse), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_unbiased_estimators_have_the_exact_kl_as_their_mean(reverse: bool) -> None:
    old_probability, new_probability = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.4, 0.2])
    old, new = (Categorical(jnp.log(jnp.array([p] * 3))) for p in (old_probability, new_probability))
    ratio = new_probability / old_probability
    by_hand = old_probability @ (ratio * np.log(ratio) if reverse else -np.log(ratio))
    close(kl_to_old(new, old, jnp.arange(3), "exact", reverse), [by_hand] * 3)
    for estimator in ("k1", "k3"):
        close(old_probability @ kl_to_old(new, old, jnp.arange(3), estimator, reverse), by_hand)


def test_surrogate_is_the_mean_of_ratio_times_advantage() -> None:
    close(surrogate(RATIO, ADVANTAGE, WEIGHT), (1.0 - 1.0 + 6.0) / 3)


def test_clipped_gain_is_the_lesser_of_both_products() -> None:
    close(clipped_gain(RATIO, ADVANTAGE, 0.8, 1.2)[COUNTED], [1.0, -1.0, 1.2 * 3])
    close(clipped_gain(RATIO, -ADVANTAGE, 0.8, 1.2)[COUNTED], [-0.8 * 2, 1.0, -6.0])
    close(clipped_gain(RATIO, ADVANTAGE, -1e9, 1e9), RATIO * ADVANTAGE)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [(1.5, 1.0, 0.0), (0.5, 1.0, 1.0), (1.5, -1.0, -1.0), (0.5, -1.0, 0.0), (1.1, 1.0, 1.0), (0.9, -1.0, -1.0)],
)
def test_clipping_stops_the_gradient_only_where_the_ratio_has_gone_far_enough(
    ratio: float, advantage: float, slope: float
) -> None:
    one = jnp.ones(1)
    got = jax.grad(lambda r: clipped_gain(r, advantage * one, 0.8, 1.2).sum())(ratio * one)
    close(got, [slope])


@pytest.mark.parametrize("clip_range", [None, 0.2])
def test_at_ratio_one_the_gradient_is_the_policy_gradient(clip_range: float | None) -> None:
    logits = jnp.asarray(samples(15).reshape(5, 3))
    action = jnp.array([0, 1, 2, 1, 0])
    old = Categorical(logits).log_prob(action)

    def objective(logits: jax.Array) -> jax.Array:
        ratio = importance_ratio(Categorical(logits).log_prob(action), old)
        if clip_range is None:
            return surrogate(ratio, ADVANTAGE, WEIGHT)
        return expectation(clipped_gain(ratio, ADVANTAGE, 1 - clip_range, 1 + clip_range), WEIGHT)

    probabilities = np.exp(np.asarray(logits, np.float64))
    probabilities /= probabilities.sum(-1, keepdims=True)
    scores = np.eye(3)[np.asarray(action)] - probabilities
    expected = scores * (np.asarray(ADVANTAGE) * COUNTED / 3)[:, None]
    np.testing.assert_allclose(jax.jit(jax.grad(objective))(logits), expected, rtol=1e-5, atol=1e-6)


def test_rows_of_weight_zero_have_no_gradient() -> None:
    def loss(value: jax.Array) -> jax.Array:
        return expectation(clipped_value_error(value, ADVANTAGE, ADVANTAGE + 1, 0.2), WEIGHT)

    slope = jax.grad(loss)(RATIO)
    np.testing.assert_array_equal(np.asarray(slope)[~COUNTED], [0, 0])


def test_squared_error() -> None:
    close(squared_error(RATIO, ADVANTAGE, WEIGHT), (1.5**2 + 2.0**2 + 1.0**2) / 3)


@pytest.mark.parametrize(
    ("value", "target", "loss", "slope"),
    [
        (1.1, 2.0, 0.5 * 0.9**2, -0.9),  # within the range: the plain loss
        (1.5, 2.0, 0.5 * 0.8**2, 0.0),  # beyond it, towards the target: the clipped loss is greater, and flat
        (3.0, 1.0, 0.5 * 2.0**2, 2.0),  # overshot: the plain loss is greater
        (0.0, 2.0, 0.5 * 2.0**2, -2.0),  # moved away: the plain loss is greater
        (0.5, 0.0, 0.5 * 0.8**2, 0.0),  # the same downwards
    ],
)
def test_value_loss_is_the_greater_of_plain_and_clipped(value: float, target: float, loss: float, slope: float) -> None:
    """The old value is 1 and the range 0.2; a second row does not count."""

    def of(value: jax.Array) -> jax.Array:
        errors = clipped_value_error(value, jnp.array([1.0, 5.0]), jnp.array([target, -7.0]), 0.2)
        return expectation(errors, jnp.array([1.0, 0.0]))

    got, got_slope = jax.value_and_grad(of)(jnp.array([value, 3.0]))
    close(got, loss)
    close(got_slope, [slope, 0.0])


def test_a_wide_range_leaves_the_plain_value_error() -> None:
    value, old, target = (jnp.asarray(samples(5, seed)) for seed in range(3))
    close(clipped_value_error(value, old, target, 1e9), 0.5 * (value - target) ** 2)


def test_several_expectations_at_once_equal_single_ones() -> None:
    rows = [jnp.asarray(samples(5, seed)) for seed in range(3)]
    close(expectations(rows, WEIGHT), [expectation(row, WEIGHT) for row in rows])
    close(expectations(rows, jnp.zeros(5)), [0.0, 0.0, 0.0])


def test_explained_variance_is_that_of_the_rows_that_count() -> None:
    value, target = samples(5), samples(5, 1)
    v, g = (x.astype(np.float64)[COUNTED] for x in (value, target))
    expected = 1 - (g - v).var() / g.var()
    close(explained_variance(jnp.asarray(value), jnp.asarray(target), WEIGHT), expected)


def test_explained_variance_of_perfect_constant_and_hopeless_critics() -> None:
    target, one = jnp.array([1.0, 2.0, 3.0]), jnp.ones(3)
    close(explained_variance(target, target, one), 1.0)
    close(explained_variance(target + 5, target, one), 1.0)
    close(explained_variance(one, target, one), 0.0)
    close(explained_variance(-target, target, one), -3.0)
    close(explained_variance(target, one, one), 0.0)  # no variance to explain


def test_explained_variance_does_not_depend_on_the_scale() -> None:
    value, target = jnp.array([1.0, 3.0, -2.0, 0.5]), jnp.array([-1.0, 2.0, 1.0, 4.0])
    one = jnp.ones(4)
    expected = explained_variance(value, target, one)
    assert expected < 0
    close(explained_variance(1e-6 * value, 1e-6 * target, one), expected)
    close(explained_variance(value, target, jnp.zeros(4)), 0.0)


@pytest.mark.parametrize(
    ("kl", "factor"),
    [(0.0, 0.5), (0.0199, 0.5), (0.0201, 1.0), (0.03, 1.0), (0.0449, 1.0), (0.0451, 2.0), (9.0, 2.0)],
)
def test_kl_cost_halves_below_two_thirds_of_the_target_and_doubles_beyond_one_and_a_half(
    kl: float, factor: float
) -> None:
    close(adapt_kl_cost(jnp.array(3.0), jnp.array(kl), 0.03), 3.0 * factor)


def test_kl_cost_stays_within_bounds() -> None:
    close(adapt_kl_cost(jnp.array(1e8), jnp.array(1.0), 0.03), 1e8)
    close(adapt_kl_cost(jnp.array(0.0), jnp.array(1.0), 0.03), 0.0)
    np.testing.assert_allclose(adapt_kl_cost(jnp.array(1e-8), jnp.array(0.0), 0.03), 1e-8, rtol=1e-5)
