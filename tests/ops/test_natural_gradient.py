"""Fisher products and conjugate gradients against dense float64 matrices, and the line search on simple functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.algorithms.test_mcpo import Network, Softmax
from tests.probes import SPECS
from trustax.networks import Architecture, Policy
from trustax.ops.natural_gradient import conjugate_gradient, fisher_product, line_search, step_to_boundary
from trustax.ops.objectives import mean_kl

HIDDEN_SIZES = (3, 2)
both_action_kinds = pytest.mark.parametrize("actions", ["discrete", "box"])


def relative_error(got: Any, expected: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(got, np.float64) - expected) / np.linalg.norm(expected))


def positive_definite(size: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T / size + np.eye(size)


def dense_fisher(actions: str, parameters: np.ndarray, observation: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ w JᵀM J / Σ w, row by row: J by hand, M from the textbook."""
    network = Network(SPECS[actions], HIDDEN_SIZES)
    total = np.zeros((len(parameters),) * 2)
    for row, w in zip(observation, weight, strict=True):
        said = network(parameters, row[None])
        distribution = said.distribution
        if isinstance(distribution, Softmax):
            p = distribution.p[0]
            metric = np.diag(p) - np.outer(p, p)
        else:
            metric = np.diag(np.concatenate([distribution.std[0] ** -2, np.full(network.num_outputs, 2.0)]))
        slopes = np.eye(len(metric))[:, None]
        jacobian = np.stack([network.gradient(parameters, said, slope, np.zeros(1)) for slope in slopes])
        total += w * jacobian.T @ metric @ jacobian
    return total / weight.sum()


def problem(actions: str) -> tuple[Policy, Callable[[Any], Any], Any, np.ndarray]:
    """A tiny policy, its distributions on some observations, their weights, and the dense Fisher information."""
    policy = Architecture(SPECS[actions], HIDDEN_SIZES).init(jax.random.key(0))
    # Not the initial policy, whose probabilities are nearly uniform and whose standard deviations are all 1.
    parameters = policy.parameters + 0.3 * jax.random.normal(jax.random.key(1), policy.parameters.shape)
    policy = Policy(parameters, policy.architecture)
    observation = jax.random.normal(jax.random.key(2), (12, 3))
    weight = jnp.ones(12).at[jnp.array([2, 7])].set(0.0)
    fisher = dense_fisher(actions, *(np.asarray(x, np.float64) for x in (parameters, observation, weight)))
    return policy, lambda x: Policy(x, policy.architecture).batch(observation)[0], weight, fisher


@both_action_kinds
def test_fisher_product_equals_the_dense_matrix(actions: str) -> None:
    policy, distribution_of, weight, fisher = problem(actions)
    product = jax.jit(jax.vmap(fisher_product(distribution_of, policy.parameters, weight, damping=0.0)))
    columns = product(jnp.eye(len(fisher)))
    assert relative_error(columns, fisher) < 1e-5
    assert np.linalg.eigvalsh(fisher)[0] > -1e-12
    vector = np.random.default_rng(0).normal(size=len(fisher)).astype(np.float32)
    assert relative_error(product(vector[None])[0], fisher @ vector) < 1e-5


@both_action_kinds
def test_fisher_product_is_the_derivative_of_the_gradient_of_the_divergence(actions: str) -> None:
    """The term of ∇² that is left out is zero."""
    policy, distribution_of, weight, _ = problem(actions)
    fixed = distribution_of(policy.parameters)
    gradient = jax.grad(lambda x: mean_kl(fixed, distribution_of(x), weight))
    vector = jax.random.normal(jax.random.key(3), policy.parameters.shape)
    _, expected = jax.jvp(gradient, (policy.parameters,), (vector,))
    product = fisher_product(distribution_of, policy.parameters, weight, damping=0.25)
    assert relative_error(product(vector), np.asarray(expected + 0.25 * vector)) < 1e-5


@both_action_kinds
def test_a_small_step_has_the_divergence_of_its_quadratic_form(actions: str) -> None:
    policy, distribution_of, weight, _ = problem(actions)
    product = fisher_product(distribution_of, policy.parameters, weight, damping=0.0)
    direction = jax.random.normal(jax.random.key(3), policy.parameters.shape)
    step = step_to_boundary(direction, product, kl_target=1e-4)
    kl = mean_kl(distribution_of(policy.parameters), distribution_of(policy.parameters + step), weight)
    assert float(kl) == pytest.approx(1e-4, rel=0.05)


def test_the_critic_has_no_curvature() -> None:
    policy, distribution_of, weight, _ = problem("box")
    product = fisher_product(distribution_of, policy.parameters, weight, damping=0.0)
    network = policy.architecture.unflatten(product(jnp.ones_like(policy.parameters)))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(network.critic))
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves((network.actor, network.log_std)))


@pytest.mark.parametrize("size", [1, 5, 40])
def test_conjugate_gradients_solve_a_random_system(size: int) -> None:
    matrix, target = positive_definite(size), np.random.default_rng(1).normal(size=size)
    dense = jnp.asarray(matrix, jnp.float32)
    solve = jax.jit(lambda b: conjugate_gradient(lambda v: dense @ v, b, num_iterations=size))
    assert relative_error(solve(jnp.asarray(target, jnp.float32)), np.linalg.solve(matrix, target)) < 1e-5


def test_conjugate_gradients_match_the_textbook() -> None:
    """Iteration by iteration against float64, before they have converged."""
    matrix, target = positive_definite(10), np.random.default_rng(1).normal(size=10)
    dense, b = jnp.asarray(matrix, jnp.float32), jnp.asarray(target, jnp.float32)
    x, residual, direction = np.zeros(10), target, target
    for count in range(1, 6):
        alpha = residual @ residual / (direction @ matrix @ direction)
        x, new_residual = x + alpha * direction, residual - alpha * matrix @ direction
        direction = new_residual + new_residual @ new_residual / (residual @ residual) * direction
        residual = new_residual
        assert relative_error(conjugate_gradient(lambda v: dense @ v, b, count), x) < 1e-5


@both_action_kinds
def test_conjugate_gradients_give_the_natural_gradient(actions: str) -> None:
    policy, distribution_of, weight, fisher = problem(actions)
    gradient = jax.random.normal(jax.random.key(3), policy.parameters.shape)
    product = fisher_product(distribution_of, policy.parameters, weight, damping=0.1)
    direction = jax.jit(lambda g: conjugate_gradient(product, g, num_iterations=60))(gradient)
    damped = fisher + 0.1 * np.eye(len(fisher))
    assert relative_error(direction, np.linalg.solve(damped, np.asarray(gradient, np.float64))) < 1e-4


def test_conjugate_gradients_stop_after_convergence() -> None:
    dense = jnp.asarray(positive_definite(4), jnp.float32)
    arrived, later = (conjugate_gradient(lambda v: dense @ v, jnp.ones(4), count) for count in (12, 500))
    np.testing.assert_array_equal(arrived, later)
    coarse = conjugate_gradient(lambda v: dense @ v, jnp.ones(4), 12, tolerance=5.0)
    np.testing.assert_array_equal(coarse, 0)


@pytest.mark.parametrize("curvature", [0.0, -1.0, np.nan])
def test_conjugate_gradients_reject_nonpositive_curvature(curvature: float) -> None:
    scale = jnp.array([2.0, curvature])
    np.testing.assert_array_equal(conjugate_gradient(lambda v: curvature * v, jnp.ones(2), 5), 0)
    assert np.isfinite(conjugate_gradient(lambda v: jnp.where(v == 0, 0.0, scale * v), jnp.array([1.0, 0.0]), 5)).all()
    np.testing.assert_array_equal(step_to_boundary(jnp.ones(2), lambda v: curvature * v, kl_target=0.01), 0)


def test_a_gradient_of_zero_gives_no_step() -> None:
    direction = conjugate_gradient(lambda v: 2 * v, jnp.zeros(3), 5)
    np.testing.assert_array_equal(direction, 0)
    np.testing.assert_array_equal(step_to_boundary(direction, lambda v: 2 * v, kl_target=0.01), 0)


def search(gain: Any, kl: Any, expected: float = 1.0, kl_limit: float = 1.0, num_steps: int = 10) -> tuple[Any, float]:
    """Search from 5 to 6 on functions of the fraction."""

    def measure(x: Any) -> Any:
        return jnp.asarray(gain(x[0] - 5), jnp.float32), jnp.asarray(kl(x[0] - 5), jnp.float32)

    run = jax.jit(lambda x: line_search(measure, x, jnp.ones(1), jnp.float32(expected), kl_limit, num_steps))
    found = run(jnp.full(1, 5.0))
    return float(found.parameters[0]), float(found.fraction)


def free(f: Any) -> Any:
    return 0 * f


@pytest.mark.parametrize("power", [0, 1, 4, 9])
def test_line_search_takes_the_first_fraction_within_the_limit(power: int) -> None:
    assert search(lambda f: f, lambda f: f, kl_limit=0.5**power) == (5 + 0.5**power, 0.5**power)


def test_line_search_gives_up_after_its_last_fraction() -> None:
    assert search(lambda f: f, lambda f: f, kl_limit=0.5**10) == (5.0, 0.0)
    assert search(lambda f: f, lambda f: f, kl_limit=0.25, num_steps=2) == (5.0, 0.0)
    assert search(lambda f: f, lambda f: f, kl_limit=0.25, num_steps=3) == (5.25, 0.25)


def test_line_search_requires_an_improvement() -> None:
    assert search(lambda f: -f, free) == (5.0, 0.0)
    assert search(lambda f: 0 * f, free, expected=0.0) == (5.0, 0.0)
    assert search(lambda f: -f, free, expected=-100.0) == (5.0, 0.0)
    assert search(lambda f: f - 3 * f**2, free) == (5.25, 0.25)


def test_line_search_requires_a_tenth_of_the_predicted_gain() -> None:
    assert search(lambda f: 0.11 * f, free) == (6.0, 1.0)
    assert search(lambda f: 0.09 * f, free) == (5.0, 0.0)
    # Half of the step gains 0.0475, but needs 0.05; a quarter gains 0.137 and needs 0.025.
    assert search(lambda f: f - 1.81 * f**2, free) == (5.25, 0.25)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_line_search_rejects_values_that_are_not_finite(bad: float) -> None:
    assert search(lambda f: f, lambda f: jnp.where(f > 0.3, bad, 0.0)) == (5.25, 0.25)
    assert search(lambda f: jnp.where(f > 0.3, -bad, f), free) == (5.25, 0.25)


def test_line_searches_under_vmap_are_independent() -> None:
    def run(limit: Any) -> Any:
        found = line_search(lambda x: (x[0], x[0] / limit), jnp.zeros(1), jnp.ones(1), jnp.float32(1.0), 1.0, 10)
        return found.fraction

    limits = jnp.array([1.0, 0.3, 1e-9, 0.004])
    np.testing.assert_array_equal(jax.jit(jax.vmap(run))(limits), [1.0, 0.25, 0.0, 0.5**8])
