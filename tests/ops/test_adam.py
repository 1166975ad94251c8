"""Adam against NumPy in float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.adam import adam_init, adam_step


def numpy_adam(
    x: np.ndarray, gradients: np.ndarray, rates: np.ndarray, max_norm: float
) -> tuple[np.ndarray, np.ndarray]:
    """Adam as in Kingma and Ba, on gradients clipped by their norm; returns every x and every norm."""
    m, v, path, norms = np.zeros_like(x), np.zeros_like(x), [], []
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norms.append(np.sqrt((g**2).sum()))
        g = g * min(1.0, max_norm / (norms[-1] + 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-5)
        path.append(x)
    return np.array(path), np.array(norms)


@pytest.mark.parametrize("max_norm", [1e9, 0.5])
def test_adam_matches_numpy_over_many_steps(max_norm: float) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=6).astype(np.float32)
    scale = 10.0 ** generator.uniform(-3, 1, (20, 1))  # so that some norms are clipped and some are not
    gradients = (scale * generator.normal(size=(20, 6))).astype(np.float32)
    rates = np.linspace(0.1, 0.01, 20, dtype=np.float32)
    expected, norms = numpy_adam(*(a.astype(np.float64) for a in (x, gradients, rates)), max_norm)
    if max_norm < 1:
        assert 0 < (norms > max_norm).sum() < 20

    def step(carry: Any, xs: Any) -> tuple[Any, Any]:
        parameters, state, norm = adam_step(carry[0], xs[0], carry[1], xs[1], max_norm)
        return (parameters, state), (parameters, norm)

    start = (jnp.asarray(x), adam_init(jnp.asarray(x)))
    _, (path, got_norms) = jax.lax.scan(step, start, (jnp.asarray(gradients), jnp.asarray(rates)))
    np.testing.assert_allclose(path, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got_norms, norms, rtol=1e-5)


def test_the_norm_is_the_global_norm_of_all_leaves() -> None:
    parameters = {"actor": jnp.zeros(2), "critic": jnp.zeros((1, 2))}
    gradient = {"actor": jnp.array([2.0, 0.0]), "critic": jnp.array([[1.0, 2.0]])}
    state = adam_init(parameters)
    _, state, norm = adam_step(parameters, gradient, state, 0.1, 0.3)
    np.testing.assert_allclose(norm, 3.0, rtol=1e-6)
    np.testing.assert_allclose(state.mu["actor"], [0.1 * 0.2, 0.0], rtol=1e-5)
    np.testing.assert_allclose(state.mu["critic"], [[0.1 * 0.1, 0.1 * 0.2]], rtol=1e-5)


def test_a_zero_gradient_changes_nothing() -> None:
    parameters, _, norm = adam_step(jnp.ones(3), jnp.zeros(3), adam_init(jnp.ones(3)), 0.1, 0.5)
    np.testing.assert_array_equal(parameters, np.ones(3))
    assert norm == 0.0
