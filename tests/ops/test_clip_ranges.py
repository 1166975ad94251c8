"""TRGPPO's clip ranges: published values, the equations they solve, and their shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.clip_ranges import categorical_bounds, gaussian_bounds, kl_radius_of


@pytest.mark.parametrize(("dimension", "radius"), [(3, 0.01064), (6, 0.00543), (8, 0.00409), (17, 0.00194)])
def test_the_radius_follows_from_the_clip_range(dimension: int, radius: float) -> None:
    assert kl_radius_of(dimension, 0.2) == pytest.approx(radius, abs=1e-5)


@pytest.mark.parametrize(("distance", "lower", "upper"), [(0, 0.836, 1.2), (1, 0.770, 1.284), (2, 0.459, 2.04)])
def test_gaussian_bounds_in_six_dimensions(distance: float, lower: float, upper: float) -> None:
    bounds = jax.jit(lambda z: gaussian_bounds(z, 0.2))(jnp.full(6, float(distance)))
    np.testing.assert_allclose(bounds, (lower, upper), atol=6e-4 * upper)


@pytest.mark.parametrize("dimension", [1, 3, 17])
def test_gaussian_bounds_widen_with_the_distance(dimension: int) -> None:
    distances = jnp.linspace(0, 4.9, 200)
    lower, upper = gaussian_bounds(jnp.repeat(distances[:, None], dimension, axis=1), 0.2)
    np.testing.assert_allclose(upper[0], 1.2, rtol=1e-6)
    assert (lower < 1).all()
    assert (np.diff(upper) >= 0).all()
    assert (np.diff(lower) <= 0).all()


def test_gaussian_bounds_are_reached_by_a_policy_within_the_radius() -> None:
    """Random policies inside the region never exceed the bounds, and some come close."""
    rng, distance = np.random.default_rng(0), 1.5
    budget = 2 * kl_radius_of(1, 0.2)
    mean, variance = rng.normal(0, 0.3, 200_000), rng.uniform(0.3, 2.5, 200_000)
    inside = variance + mean**2 - 1 - np.log(variance) <= budget
    log_ratio = -0.5 * np.log(variance) - (distance - mean) ** 2 / (2 * variance) + distance**2 / 2
    ratios = np.exp(log_ratio[inside])
    lower, upper = gaussian_bounds(jnp.array([distance]), 0.2)
    assert lower * (1 - 1e-5) <= ratios.min() < lower * 1.02
    assert upper * 0.98 < ratios.max() <= upper * (1 + 1e-5)


@pytest.mark.parametrize(("probability", "lower", "upper"), [(0.05, 0.817, 1.207), (0.5, 0.955, 1.045)])
def test_categorical_bounds(probability: float, lower: float, upper: float) -> None:
    bounds = jax.jit(lambda p: categorical_bounds(p, 0.001))(jnp.array(probability))
    np.testing.assert_allclose(bounds, (lower, upper), atol=6e-4)


def test_a_large_radius_lets_a_likely_action_become_certain() -> None:
    _, upper = categorical_bounds(jnp.array(0.99), 0.3)
    np.testing.assert_allclose(upper, 1 / 0.99, rtol=1e-3)


def test_categorical_bounds_solve_their_equation() -> None:
    p = np.arange(0.01, 0.99, 0.01)
    for y in categorical_bounds(jnp.asarray(p, jnp.float32), 0.01):
        y = np.asarray(y, np.float64)
        kl = (1 - p) * np.log((1 - p) / (1 - p * y)) - p * np.log(y)
        np.testing.assert_allclose(kl, 0.01, rtol=1e-4)


def test_extreme_probabilities_use_the_nearest_table_entry() -> None:
    lower, upper = categorical_bounds(jnp.array([0.0, 1.0]), 0.001)
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()
