"""Kronecker factors against sums over samples and positions in NumPy, and the solve against the explicit inverse."""

import re
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import QUICK_COMPILE
from trustax.networks import Architecture, Conv, Policy
from trustax.ops.kfac import EIGENVALUE_FLOOR, Factor, KroneckerFactors, fisher_factors, trust_region_scale
from trustax.types import BoxActions, DiscreteActions, EnvSpec

DENSE = Architecture(EnvSpec((3,), BoxActions((-1.0, -1.0), (1.0, 1.0))), (5, 4))
IMAGE = Architecture(EnvSpec((1, 44, 40), DiscreteActions(3), "uint8"))
NUM_SAMPLES = 4
DAMPING = 0.01

quickly = partial(jax.jit, compiler_options=QUICK_COMPILE)
precondition = quickly(partial(KroneckerFactors.precondition, damping=DAMPING))


def size_of(architecture: Architecture) -> int:
    return jax.eval_shape(architecture.init, jax.random.key(0)).parameters.size


def positive_definite(generator: np.random.Generator, size: int) -> np.ndarray:
    rows = generator.normal(size=(2 * size, size))
    return rows.T @ rows / (2 * size)


def random_curvature(architecture: Architecture) -> tuple[KroneckerFactors, list[tuple[np.ndarray, np.ndarray]]]:
    generator = np.random.default_rng(0)
    empty = KroneckerFactors.init(architecture)
    sizes = [(len(a.values), len(g.values)) for a, g in empty.blocks]
    estimates = [(positive_definite(generator, into), positive_definite(generator, out)) for into, out in sizes]
    given = [(jnp.asarray(a, float), jnp.asarray(g, float)) for a, g in estimates]
    begin = quickly(lambda x: empty.average(x, decay=0.99).decompose(jnp.array(True)))
    return begin(given), estimates


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_preconditioning_matches_the_explicit_inverse(dtype: str, tolerance: float) -> None:
    with jax.enable_x64(dtype == "float64"):
        curvature, estimates = random_curvature(DENSE)
        gradient = np.random.default_rng(1).normal(size=size_of(DENSE)).astype(dtype)
        natural = np.asarray(precondition(curvature, Policy(jnp.asarray(gradient), DENSE)))
        assert natural.dtype == dtype
    begin = 0
    for a, g in estimates:
        fisher = np.kron(a, g)
        piece = slice(begin, begin + len(fisher))
        expected = np.linalg.solve(fisher + DAMPING * np.eye(len(fisher)), gradient[piece].astype(np.float64))
        assert np.linalg.norm(natural[piece] - expected) < tolerance * np.linalg.norm(expected)
        begin = piece.stop
    assert begin == len(gradient)


def test_kernels_are_preconditioned_in_their_own_layout() -> None:
    """A V G + λ V equals the gradient, with V in the shape of the kernel."""
    with jax.enable_x64(True):
        curvature, estimates = random_curvature(IMAGE)
        gradient = Policy(jnp.asarray(np.random.default_rng(1).normal(size=size_of(IMAGE))), IMAGE)
        network = IMAGE.unflatten(gradient.parameters)
        natural = IMAGE.unflatten(precondition(curvature, gradient))
    for number, (layer, solved) in enumerate(zip(network.torso, natural.torso, strict=True)):
        a, g = estimates[2 * number]
        kernel = np.asarray(solved.kernel)
        patches = a.reshape(*kernel.shape[1:], *kernel.shape[1:])
        back = np.einsum("ihwjkl,pjkl,po->oihw", patches, kernel, g, optimize=True) + DAMPING * kernel
        np.testing.assert_allclose(back, layer.kernel, rtol=1e-8, atol=1e-8)


class Case:
    """A policy, a few samples, and the loss of one of them."""

    def __init__(self, architecture: Architecture) -> None:
        generator = np.random.default_rng(0)
        shape, actions = architecture.spec.observation_shape, architecture.spec.actions
        self.policy = Policy(jnp.asarray(0.1 * generator.normal(size=size_of(architecture)), jnp.float32), architecture)
        if architecture.spec.is_image:
            self.observation = jnp.asarray(generator.integers(0, 256, (NUM_SAMPLES, *shape), np.uint8))
        else:
            self.observation = jnp.asarray(generator.normal(size=(NUM_SAMPLES, *shape)), jnp.float32)
        if isinstance(actions, DiscreteActions):
            self.action = jnp.asarray(generator.integers(0, actions.count, NUM_SAMPLES))
        else:
            self.action = jnp.asarray(generator.normal(size=(NUM_SAMPLES, *actions.shape)), jnp.float32)
        self.noise = jnp.asarray(generator.normal(size=NUM_SAMPLES), jnp.float32)
        self.weight = jnp.array([1.0, 0.0, 1.0, 1.0])

    @property
    def network(self) -> Any:
        return self.policy.architecture.unflatten(self.policy.parameters)

    def factors(self, rows: list[int], weight: Any = None) -> Any:
        pick = jnp.array(rows)
        weight = jnp.ones(len(rows)) if weight is None else weight
        return quickly(fisher_factors)(self.policy, self.observation[pick], self.action[pick], self.noise[pick], weight)

    def loss(self, row: int, outputs: Any) -> Any:
        distribution, value = outputs
        target = jax.lax.stop_gradient(value) + self.noise[row]
        return -distribution.log_prob(self.action[row]) - (value - target) ** 2


@lru_cache
def case(architecture: Architecture) -> Case:
    return Case(architecture)


@pytest.mark.parametrize("row", [0, 1])
def test_one_sample_has_the_exact_fisher_information_of_a_dense_layer(row: int) -> None:
    """For one sample, A ⊗ G is its gradient times itself transposed, also for biases and deviations."""
    dense = case(DENSE)
    gradient = quickly(jax.grad(lambda network: dense.loss(row, network(dense.observation[row]))))(dense.network)
    arrays = jax.tree.leaves(gradient)
    assert len(arrays) == 2 * 3 * 2 + 1
    for (a, g), array in zip(dense.factors([row]), arrays, strict=True):
        exact = np.outer(array, array)
        np.testing.assert_allclose(np.kron(a, g), exact, rtol=1e-4, atol=1e-5 * np.max(np.abs(exact)))


def test_factors_of_a_batch_are_weighted_means() -> None:
    dense = case(DENSE)
    alone = [dense.factors([row]) for row in (0, 2, 3)]
    for index, pair in enumerate(dense.factors([0, 1, 2, 3], dense.weight)):
        for side, factor in enumerate(pair):
            mean = np.mean([block[index][side] for block in alone], axis=0)
            np.testing.assert_allclose(factor, mean, rtol=1e-5, atol=1e-6)


def from_convolution(network: Any, number: int, output: Any) -> Any:
    """π and V, given the output of the convolution with this index."""
    for layer in network.torso[number + 1 :]:
        output = layer(jax.nn.relu(output))
    hidden = jax.nn.relu(network.hidden(jax.nn.relu(output).ravel()))
    return type(case(IMAGE).policy(case(IMAGE).observation[0])[0])(network.actor(hidden)), network.critic(hidden)[0]


def inputs_of_convolutions(network: Any, image: Any) -> list[Any]:
    inputs = [image]
    for layer in network.torso[:-1]:
        inputs.append(jax.nn.relu(layer(inputs[-1])))
    return inputs


def patches_of(layer: Conv, image: np.ndarray) -> np.ndarray:
    size = layer.kernel.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(1, 2))
    return np.moveaxis(windows[:, :: layer.stride, :: layer.stride], 0, 2).reshape(-1, layer.kernel[0].size)


def test_factors_of_convolutions_are_sums_over_samples_and_positions() -> None:
    images = case(IMAGE)
    network, count = images.network, float(jnp.sum(images.weight))
    inputs_of = quickly(lambda network, image: inputs_of_convolutions(network, image / 255))
    rows = {row: inputs_of(network, images.observation[row]) for row in np.flatnonzero(images.weight)}
    factors = images.factors([0, 1, 2, 3], images.weight)
    for number, layer in enumerate(network.torso):
        into, out, bias, places = 0.0, 0.0, 0.0, 0

        @quickly
        def slope_of(network: Any, image: Any, row: Any, number: int = number) -> Any:
            output = network.torso[number](image)
            return jax.grad(lambda y: images.loss(row, from_convolution(network, number, y)))(output)

        for row, inputs in rows.items():
            image = inputs[number]
            slope = np.asarray(slope_of(network, image, row), np.float64)
            patches, places = patches_of(layer, np.asarray(image, np.float64)), slope[0].size
            assert len(patches) == places
            slope = slope.reshape(len(slope), places)
            into, out = into + patches.T @ patches, out + slope @ slope.T
            bias = bias + np.outer(slope.sum(1), slope.sum(1))
        expected = (into / (count * places**2), out * places / count), (np.ones((1, 1)), bias / count)
        for pair, reference in zip(factors[2 * number : 2 * number + 2], expected, strict=True):
            for factor, exact in zip(pair, reference, strict=True):
                np.testing.assert_allclose(factor, exact, rtol=1e-4, atol=1e-5 * np.max(np.abs(exact)))


def test_running_averages_start_with_the_first_estimate_and_decay() -> None:
    first, second = random_curvature(DENSE)[1], [(2 * a, 3 * g) for a, g in random_curvature(DENSE)[1]]
    as_arrays = [[(jnp.asarray(a, jnp.float32), jnp.asarray(g, jnp.float32)) for a, g in x] for x in (first, second)]
    curvature = KroneckerFactors.init(DENSE).average(as_arrays[0], 0.9).average(as_arrays[1], 0.9)
    for (a, g), (first_a, first_g) in zip(curvature.blocks, first, strict=True):
        np.testing.assert_allclose(a.average, (0.9 + 0.1 * 2) * first_a, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(g.average, (0.9 + 0.1 * 3) * first_g, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(a.values, np.zeros(len(first_a)))


def test_nothing_is_decomposed_before_it_is_due() -> None:
    curvature, _ = random_curvature(DENSE)
    doubled = jax.tree.map(lambda x: 2 * x, curvature)
    old, new = doubled.decompose(jnp.array(False)), doubled.decompose(jnp.array(True))
    for pair in zip(old.blocks, new.blocks, doubled.blocks, curvature.blocks, strict=True):
        for stale, fresh, before, original in zip(*pair, strict=True):
            np.testing.assert_array_equal(stale.vectors, before.vectors)
            np.testing.assert_array_equal(stale.values, before.values)
            np.testing.assert_allclose(fresh.values, 2 * original.values, rtol=1e-4)


def test_small_eigenvalues_are_treated_as_zero() -> None:
    values = np.array([-1e-3, 0.5 * EIGENVALUE_FLOOR, 2 * EIGENVALUE_FLOOR, 1.0], np.float32)
    factor = Factor(jnp.diag(jnp.asarray(values)), jnp.zeros(4), jnp.eye(4)).decompose()
    np.testing.assert_allclose(factor.values, [0, 0, 2 * EIGENVALUE_FLOOR, 1], rtol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_scaled_step_stays_in_the_trust_region(size: float) -> None:
    curvature, _ = random_curvature(DENSE)
    gradient = size * jax.random.normal(jax.random.key(0), (size_of(DENSE),))
    direction = precondition(curvature, Policy(gradient, DENSE))
    scale = float(trust_region_scale(direction, gradient, learning_rate=0.25, kl_target=0.01))
    q = 0.25**2 * float(direction @ gradient)
    assert q > 0
    assert 0 < scale <= 1
    assert q * scale**2 == pytest.approx(min(q, 0.01), rel=1e-4)


def test_a_zero_gradient_is_not_scaled_down() -> None:
    assert float(trust_region_scale(jnp.zeros(3), jnp.zeros(3), 0.25, 0.01)) == 1


def test_seeds_are_decomposed_one_after_another() -> None:
    """A batched LAPACK call may deadlock on the CPU; the compiled program has none, and its result is correct."""
    curvature, _ = random_curvature(DENSE)
    seeds = jax.tree.map(lambda x: jnp.stack([x, 2 * x, 3 * x]), curvature)
    together = quickly(jax.vmap(lambda c: c.decompose(jnp.array(True))))
    calls = re.findall(r"= \((f32\[[\d,]*\]).*lapack_ssyevd", together.lower(seeds).compile().as_text())
    if jax.default_backend() == "cpu":
        assert len(calls) == 2 * len(curvature.blocks)
    assert all(shape.count(",") == 1 for shape in calls)
    for number, (a, g) in enumerate(together(seeds).blocks):
        for factor, one in zip((a, g), curvature.blocks[number], strict=True):
            np.testing.assert_allclose(factor.values[2], 3 * one.values, rtol=1e-4, atol=1e-6)
