"""Closed forms against float64, samples against closed forms, and the order of the arguments of KL."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustax.ops.distributions import Categorical, DiagonalGaussian, MultiCategorical

NUM_SAMPLES = 100_000

categorical_kl_of = jax.jit(Categorical.kl)
multi_kl_of = jax.jit(MultiCategorical.kl)
gaussian_kl_of = jax.jit(DiagonalGaussian.kl)

COUNTS = (2, 4, 3)
"""of the choices of a MultiCategorical"""


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def categorical_kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return (np.exp(log_softmax(p)) * (log_softmax(p) - log_softmax(q))).sum(-1)


def pieces(logits: np.ndarray) -> list[np.ndarray]:
    """The logits of each part."""
    return np.split(logits, np.cumsum(COUNTS)[:-1], axis=-1)


def multi_kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return sum(categorical_kl(a, b) for a, b in zip(pieces(p), pieces(q), strict=True))


def multi(logits: np.ndarray) -> MultiCategorical:
    return MultiCategorical.of(*f32(logits), COUNTS)


def gaussian_kl(mean_p: Any, log_std_p: Any, mean_q: Any, log_std_q: Any) -> np.ndarray:
    variance_p, variance_q = np.exp(2 * log_std_p), np.exp(2 * log_std_q)
    return (log_std_q - log_std_p + (variance_p + (mean_p - mean_q) ** 2) / (2 * variance_q) - 0.5).sum(-1)


def normals(*shape: int, seed: int = 0) -> np.ndarray:
    """Float64 numbers that float32 represents exactly."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(np.float64)


def f32(*arrays: np.ndarray) -> tuple[jax.Array, ...]:
    return tuple(jnp.asarray(array, jnp.float32) for array in arrays)


def finite_differences(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    steps = 1e-5 * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(function(x + step) - function(x - step)) / 2e-5 for step in steps]).reshape(x.shape)


def agrees(samples: Any, expected: Any) -> None:
    """The mean of the samples is within five standard errors."""
    samples = np.asarray(samples, np.float64)
    error = samples.std(0) / np.sqrt(len(samples))
    np.testing.assert_array_less(np.abs(samples.mean(0) - np.asarray(expected)), 5 * error + 1e-6)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_categorical_matches_its_closed_form(shape: tuple[int, ...]) -> None:
    logits = 2 * normals(*shape)
    action = np.random.default_rng(1).integers(0, 5, shape[:-1])
    expected = log_softmax(logits)
    p = Categorical(*f32(logits))
    np.testing.assert_allclose(p.log_probs, expected, rtol=1e-5)
    chosen = np.take_along_axis(expected, action[..., None], -1)[..., 0]
    np.testing.assert_allclose(jax.jit(Categorical.log_prob)(p, jnp.asarray(action)), chosen, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(Categorical.entropy)(p), -(np.exp(expected) * expected).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(p.mode(), logits.argmax(-1))
    other = 2 * normals(*shape, seed=2)
    divergence = categorical_kl_of(p, Categorical(*f32(other)))
    np.testing.assert_allclose(divergence, categorical_kl(logits, other), rtol=1e-5)


def test_multi_categorical_sums_worked_examples() -> None:
    p = MultiCategorical.of(jnp.log(jnp.array([0.5, 0.5, 0.2, 0.7, 0.1])), counts=(2, 3))
    q = MultiCategorical.of(jnp.log(jnp.array([0.9, 0.1, 0.2, 0.7, 0.1])), counts=(2, 3))
    np.testing.assert_allclose(p.log_prob(jnp.array([0, 2])), np.log(0.5 * 0.1), rtol=1e-6)
    halves = np.log(2)
    rest = -(0.2 * np.log(0.2) + 0.7 * np.log(0.7) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(p.entropy(), halves + rest, rtol=1e-6)
    np.testing.assert_allclose(p.kl(q), 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1), rtol=1e-5)
    np.testing.assert_array_equal(p.mode(), [0, 1])


@pytest.mark.parametrize("shape", [(9,), (3, 9), (2, 3, 9)])
def test_multi_categorical_matches_its_closed_form(shape: tuple[int, ...]) -> None:
    logits, other = 2 * normals(*shape), 2 * normals(*shape, seed=2)
    p, q = multi(logits), multi(other)
    log_probs = [log_softmax(piece) for piece in pieces(logits)]
    action = np.random.default_rng(1).integers(0, COUNTS, (*shape[:-1], 3))
    chosen = [np.take_along_axis(part, action[..., [i]], -1)[..., 0] for i, part in enumerate(log_probs)]
    np.testing.assert_allclose(jax.jit(MultiCategorical.log_prob)(p, jnp.asarray(action)), sum(chosen), rtol=1e-5)
    entropy = sum(-(np.exp(part) * part).sum(-1) for part in log_probs)
    np.testing.assert_allclose(jax.jit(MultiCategorical.entropy)(p), entropy, rtol=1e-5)
    np.testing.assert_allclose(multi_kl_of(p, q), multi_kl(logits, other), rtol=1e-5)
    np.testing.assert_array_equal(p.mode(), np.stack([piece.argmax(-1) for piece in pieces(logits)], -1))


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_gaussian_matches_its_closed_form(shape: tuple[int, ...]) -> None:
    mean, log_std, action, other_mean, other_log_std = (normals(*shape, seed=n) for n in range(5))
    p, q = DiagonalGaussian(*f32(mean, log_std)), DiagonalGaussian(*f32(other_mean, other_log_std))
    std = np.exp(log_std)
    density = np.exp(-((action - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))
    expected_log_prob = np.log(density).sum(-1)
    np.testing.assert_allclose(jax.jit(DiagonalGaussian.log_prob)(p, *f32(action)), expected_log_prob, rtol=1e-5)
    expected_entropy = 0.5 * np.log(2 * np.pi * np.e * std**2).sum(-1)
    np.testing.assert_allclose(jax.jit(DiagonalGaussian.entropy)(p), expected_entropy, rtol=1e-5)
    expected_kl = gaussian_kl(mean, log_std, other_mean, other_log_std)
    np.testing.assert_allclose(gaussian_kl_of(p, q), expected_kl, rtol=1e-5)
    np.testing.assert_array_equal(p.mode(), p.mean)


def test_a_mapped_distribution_is_a_batched_one() -> None:
    p, q = (DiagonalGaussian(*f32(normals(4, 3, seed=n), normals(4, 3, seed=n + 9))) for n in range(2))
    np.testing.assert_allclose(jax.vmap(DiagonalGaussian.kl)(p, q), p.kl(q), rtol=1e-6)
    p, q = (Categorical(*f32(normals(4, 3, seed=n))) for n in range(2))
    np.testing.assert_allclose(jax.vmap(Categorical.kl)(p, q), p.kl(q), rtol=1e-6)


def test_categorical_samples_agree_with_its_moments() -> None:
    p, q = (Categorical(*f32(normals(4, seed=n))) for n in range(2))
    actions = jax.jit(jax.vmap(p.sample))(jax.random.split(jax.random.key(0), NUM_SAMPLES))
    agrees(jax.nn.one_hot(actions, 4), jnp.exp(p.log_probs))
    log_p, log_q = jax.vmap(p.log_prob)(actions), jax.vmap(q.log_prob)(actions)
    agrees(-log_p, p.entropy())
    agrees(log_p - log_q, p.kl(q))


def test_multi_categorical_samples_agree_with_its_moments() -> None:
    p, q = (multi(normals(9, seed=n)) for n in range(2))
    actions = jax.jit(jax.vmap(p.sample))(jax.random.split(jax.random.key(0), NUM_SAMPLES))
    probabilities = [np.exp(log_softmax(piece)) for piece in pieces(normals(9))]
    for part, (count, expected) in enumerate(zip(COUNTS, probabilities, strict=True)):
        agrees(jax.nn.one_hot(actions[:, part], count), expected)
    # The parts are independent of each other.
    together = (actions[:, 0] == 1) & (actions[:, 1] == 3)
    agrees(together, probabilities[0][1] * probabilities[1][3])
    log_p, log_q = jax.vmap(p.log_prob)(actions), jax.vmap(q.log_prob)(actions)
    agrees(-log_p, p.entropy())
    agrees(log_p - log_q, p.kl(q))


def test_padding_choices_are_never_drawn_and_have_no_gradient() -> None:
    p, q = (multi(normals(5000, 9, seed=n)) for n in range(2))
    assert (np.asarray(p.sample(jax.random.key(0))).max(0) == [1, 3, 2]).all()

    @jax.jit
    def everything(p: MultiCategorical) -> jax.Array:
        action = jnp.zeros((5000, 3), int)
        return jnp.sum(p.entropy() + p.kl(q) + q.kl(p) + p.log_prob(action))

    slopes = np.asarray(jax.grad(everything)(p).parts.logits)
    exists = np.arange(4) < np.array(COUNTS)[:, None]
    assert (slopes[:, ~exists] == 0).all()
    assert (slopes[:, exists] != 0).all()


def test_gaussian_samples_agree_with_its_moments() -> None:
    p, q = (DiagonalGaussian(*f32(normals(3, seed=n), 0.5 * normals(3, seed=n + 9))) for n in range(2))
    actions = jax.jit(jax.vmap(p.sample))(jax.random.split(jax.random.key(0), NUM_SAMPLES))
    agrees(actions, p.mean)
    agrees((actions - p.mean[None]) ** 2, jnp.exp(2 * p.log_std))
    log_p, log_q = jax.vmap(p.log_prob)(actions), jax.vmap(q.log_prob)(actions)
    agrees(-log_p, p.entropy())
    agrees(log_p - log_q, p.kl(q))


def test_one_sample_call_draws_independently_along_all_axes() -> None:
    p = DiagonalGaussian(jnp.zeros((50, 2)), jnp.zeros((50, 2)))
    assert len(np.unique(p.sample(jax.random.key(0)))) == 100
    choices = Categorical(jnp.zeros((1000, 2))).sample(jax.random.key(0))
    assert 400 < int(choices.sum()) < 600


def test_kl_is_from_the_first_to_the_second() -> None:
    p, q = (Categorical(jnp.log(jnp.array(probs))) for probs in ([0.5, 0.5], [0.9, 0.1]))
    np.testing.assert_allclose(p.kl(q), 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1), rtol=1e-5)
    np.testing.assert_allclose(q.kl(p), 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5), rtol=1e-5)
    narrow, wide = (DiagonalGaussian(jnp.zeros(1), jnp.log(jnp.array([std]))) for std in (1.0, 2.0))
    np.testing.assert_allclose(narrow.kl(wide), np.log(2) + 1 / 8 - 0.5, rtol=1e-5)
    np.testing.assert_allclose(wide.kl(narrow), -np.log(2) + 4 / 2 - 0.5, rtol=1e-5)


def test_categorical_kl_gradients_match_finite_differences() -> None:
    p, q = normals(5), normals(5, seed=1)
    got_p, got_q = jax.jit(jax.grad(lambda a, b: Categorical(a).kl(Categorical(b)), (0, 1)))(*f32(p, q))
    np.testing.assert_allclose(got_p, finite_differences(lambda x: categorical_kl(x, q), p), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got_q, finite_differences(lambda x: categorical_kl(p, x), q), rtol=1e-5, atol=1e-6)


def test_multi_categorical_kl_gradients_match_finite_differences() -> None:
    p, q = normals(9), normals(9, seed=1)

    def kl(a: jax.Array, b: jax.Array) -> jax.Array:
        return MultiCategorical.of(a, COUNTS).kl(MultiCategorical.of(b, COUNTS))

    got_p, got_q = jax.jit(jax.grad(kl, (0, 1)))(*f32(p, q))
    np.testing.assert_allclose(got_p, finite_differences(lambda x: multi_kl(x, q), p), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got_q, finite_differences(lambda x: multi_kl(p, x), q), rtol=1e-5, atol=1e-6)


def test_gaussian_kl_gradients_match_finite_differences() -> None:
    arguments = np.stack([normals(3, seed=n) for n in range(4)])

    def kl(a: jax.Array) -> jax.Array:
        return DiagonalGaussian(a[0], a[1]).kl(DiagonalGaussian(a[2], a[3]))

    expected = finite_differences(lambda x: gaussian_kl(*x), arguments)
    np.testing.assert_allclose(jax.jit(jax.grad(kl))(*f32(arguments)), expected, rtol=1e-5, atol=1e-6)


def test_kl_of_a_distribution_to_itself_is_zero_and_a_minimum() -> None:
    p = Categorical(*f32(normals(6, 5)))
    q = DiagonalGaussian(*f32(normals(6, 3), normals(6, 3, seed=1)))
    for distribution in (p, q, multi(normals(6, 9))):
        np.testing.assert_array_equal(distribution.kl(distribution), np.zeros(6))
        slopes = jax.jit(jax.grad(lambda new, old: old.kl(new).sum()))(distribution, distribution)
        for slope in jax.tree.leaves(slopes):
            np.testing.assert_allclose(slope, np.zeros_like(slope), atol=1e-6)


@pytest.mark.parametrize("moved", ["mean", "log_std", "both"])
def test_kl_of_nearly_equal_gaussians_is_precise(moved: str) -> None:
    mean, log_std = (np.float32(0.5 * normals(200, 3, seed=n)) for n in range(2))
    near_mean = mean + np.float32(1e-4) * (moved != "log_std")
    near_log_std = log_std + np.float32(1e-4) * (moved != "mean")
    expected = gaussian_kl(*(x.astype(np.float64) for x in (mean, log_std, near_mean, near_log_std)))
    p, q = DiagonalGaussian(*f32(mean, log_std)), DiagonalGaussian(*f32(near_mean, near_log_std))
    np.testing.assert_allclose(gaussian_kl_of(p, q), expected, rtol=1e-4)


def test_kl_of_nearly_equal_categoricals_is_precise() -> None:
    logits = normals(200, 4)
    near = np.float32(logits + 1e-3 * normals(200, 4, seed=1))
    divergence = categorical_kl_of(*(Categorical(*f32(x)) for x in (logits, near)))
    np.testing.assert_allclose(divergence, categorical_kl(logits, near.astype(np.float64)), rtol=5e-3)
    logits = normals(200, 9)
    near = np.float32(logits + 1e-3 * normals(200, 9, seed=1))
    divergence = multi_kl_of(multi(logits), multi(near))
    np.testing.assert_allclose(divergence, multi_kl(logits, near.astype(np.float64)), rtol=5e-3)


triples = st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3).map(lambda x: jnp.array(x, jnp.float32))


@settings(deadline=None, max_examples=50)
@given(triples, triples, triples, triples)
def test_kl_is_never_negative(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> None:
    assert gaussian_kl_of(DiagonalGaussian(a, b), DiagonalGaussian(c, d)) >= -1e-6
    assert categorical_kl_of(Categorical(a), Categorical(b)) >= -1e-6


def test_everything_stays_finite_at_extreme_values() -> None:
    certain = Categorical(jnp.array([80.0, -80.0, 0.0]))
    even = Categorical(jnp.zeros(3))
    assert np.isfinite([certain.entropy(), certain.kl(even), even.kl(certain)]).all()

    @jax.jit
    def everything(p: Categorical) -> jax.Array:
        return p.entropy() + p.kl(even) + even.kl(p) + p.log_prob(jnp.array(1))

    assert np.isfinite(jax.grad(everything)(certain).logits).all()
