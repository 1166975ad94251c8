"""Attention against NumPy in float64, its mask, its dropout, and its gradient through the memory."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.algorithms.mcpo.attention import Attention, dropout_masks
from trustax.algorithms.mcpo.memory import PolicyMemory

FEATURES, RANKS = 12, 5
ATTENTION = jax.jit(partial(Attention.init, num_features=FEATURES, memory_size=RANKS))(jax.random.key(0))
CONTEXT = jax.random.normal(jax.random.key(1), (FEATURES,))
attend = jax.jit(Attention.__call__)


def forward(leaves: Any, context: Any, filled: Any, dropout_mask: Any) -> np.ndarray:
    hidden_weight, hidden_bias, output_weight, output_bias = leaves
    hidden = np.maximum(np.asarray(context, np.float64) @ hidden_weight + hidden_bias, 0) * np.asarray(dropout_mask)
    odds = np.exp(hidden @ output_weight + output_bias) * np.asarray(filled)
    return odds / odds.sum()


def exact(attention: Attention) -> list[np.ndarray]:
    """Weights and biases of both layers."""
    hidden, output = (np.asarray(layer, np.float64) for layer in (attention.hidden_layer, attention.output_layer))
    return [hidden[:-1], hidden[-1], output[:-1], output[-1]]


@pytest.mark.parametrize("size", [1, 2, RANKS])
@pytest.mark.parametrize("dropped", [False, True])
def test_forward_matches_numpy(size: int, dropped: bool) -> None:
    filled = jnp.arange(RANKS) < size
    dropout_mask = jnp.array([2.0, 0.0, 2.0, 0.0, 2.0]) if dropped else jnp.ones(RANKS)
    weights = attend(ATTENTION, CONTEXT, filled, dropout_mask)
    np.testing.assert_allclose(weights, forward(exact(ATTENTION), CONTEXT, filled, dropout_mask), rtol=1e-5)


@pytest.mark.parametrize("size", range(1, RANKS + 1))
def test_weights_sum_to_one_and_are_zero_on_empty_ranks(size: int) -> None:
    for scale in (1.0, 1e4):
        weights = attend(ATTENTION, scale * CONTEXT, jnp.arange(RANKS) < size, jnp.ones(RANKS))
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(weights[size:], np.zeros(RANKS - size))
        assert (np.asarray(weights) >= 0).all()


def test_a_single_policy_gets_all_the_weight() -> None:
    weights = attend(ATTENTION, CONTEXT, jnp.arange(RANKS) < 1, jnp.ones(RANKS))
    np.testing.assert_array_equal(weights, [1, 0, 0, 0, 0])


def test_weights_mapped_over_seeds_are_those_of_each_seed() -> None:
    attentions = jax.vmap(lambda _: ATTENTION)(jnp.arange(3))
    contexts = jax.random.normal(jax.random.key(2), (3, FEATURES))
    filled = jnp.arange(RANKS)[None] < jnp.array([[1], [3], [5]])
    together = jax.jit(jax.vmap(Attention.__call__))(attentions, contexts, filled, jnp.ones((3, RANKS)))
    for seed in range(3):
        alone = attend(ATTENTION, contexts[seed], filled[seed], jnp.ones(RANKS))
        np.testing.assert_allclose(together[seed], alone, rtol=1e-5)


def test_initial_weights_are_uniform_with_the_bound_of_the_fan_in() -> None:
    attention = Attention.init(jax.random.key(3), 100, 400)
    for leaf, fan_in in zip(exact(attention), (100, 100, 400, 400), strict=True):
        bound = fan_in**-0.5
        assert 0.98 * bound < np.abs(leaf).max() <= bound * (1 + 1e-6)
        np.testing.assert_allclose(np.std(leaf), bound / np.sqrt(3), rtol=0.1)


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_dropout_keeps_the_mean(rate: float) -> None:
    mask = np.asarray(dropout_masks(jax.random.key(0), 1000, 20, rate))
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - rate))}
    error = np.sqrt(rate / (1 - rate) / mask.size)
    assert abs(mask.mean() - 1) < 4 * error


def test_without_dropout_every_unit_is_kept() -> None:
    np.testing.assert_array_equal(dropout_masks(jax.random.key(0), 3, 7, 0.0), np.ones((3, 7)))


def test_the_gradient_through_the_mixture_matches_finite_differences() -> None:
    policies = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    memory = PolicyMemory.init(RANKS, jnp.asarray(policies[0]))
    for number in range(1, 4):
        memory = memory.write(jnp.asarray(policies[number]), jnp.array(number), jnp.array(True))
    target = np.linspace(-1, 1, 6)
    dropout_mask = np.array([2.0, 0.0, 2.0, 2.0, 2.0])

    def loss(attention: Attention) -> jax.Array:
        weights = attention(CONTEXT, memory.filled, jnp.asarray(dropout_mask, jnp.float32))
        return 0.5 * jnp.sum((memory.mix(weights) - jnp.asarray(target, jnp.float32)) ** 2)

    def exact_loss(leaves: list[np.ndarray]) -> float:
        weights = forward(leaves, CONTEXT, memory.filled, dropout_mask)
        return 0.5 * ((weights[:4] @ policies[::-1].astype(np.float64) - target) ** 2).sum()

    leaves = exact(ATTENTION)
    for number, slope in enumerate(exact(jax.jit(jax.grad(loss))(ATTENTION))):
        expected = np.zeros_like(leaves[number])
        for index in np.ndindex(expected.shape):
            up, down = ([leaf.copy() for leaf in leaves] for _ in range(2))
            up[number][index] += 1e-5
            down[number][index] -= 1e-5
            expected[index] = (exact_loss(up) - exact_loss(down)) / 2e-5
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-6)
        assert np.abs(expected).max() > 1e-3
