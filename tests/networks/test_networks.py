"""How networks start, what they compute, and that a policy is one vector."""

from functools import lru_cache
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.errors import TrustaxError
from trustax.networks import Architecture, Conv, Dense, Policy, can_convolve, flatten
from trustax.ops.distributions import Categorical, DiagonalGaussian, MultiCategorical
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

DISCRETE, BOX = DiscreteActions(4), BoxActions((-1.0, -1.0), (1.0, 1.0))
VECTOR = EnvSpec((3,), DISCRETE)
CONTINUOUS = EnvSpec((3,), BOX)
SEVERAL = EnvSpec((3,), MultiDiscreteActions((2, 3), (0, 0)))
IMAGE = EnvSpec((3, 36, 40), DISCRETE, "uint8")
LAST = EnvSpec((36, 40, 3), DISCRETE, "uint8")
KEY = jax.random.key(0)


def assert_orthogonal(weight: Any, gain: float) -> None:
    """The shorter side of the matrix is a set of orthogonal vectors of length `gain`."""
    matrix = np.asarray(weight, np.float64)
    matrix = matrix if matrix.shape[0] < matrix.shape[1] else matrix.T
    np.testing.assert_allclose(matrix @ matrix.T, gain**2 * np.eye(len(matrix)), atol=1e-5 * gain**2)


@lru_cache
def fresh(architecture: Architecture) -> Policy:
    return jax.jit(architecture.init)(KEY)


def size_of(architecture: Architecture) -> int:
    return jax.eval_shape(architecture.init, KEY).parameters.size


def network_of(policy: Policy) -> Any:
    return jax.jit(policy.architecture.unflatten)(policy.parameters)


def scattered(architecture: Architecture) -> Policy:
    """A policy with numbers of ordinary size everywhere, biases and deviations too."""
    return Policy(0.1 * jax.random.normal(KEY, (size_of(architecture),)), architecture)


def pixels(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def perceptron(layers: tuple[Dense, ...], x: np.ndarray) -> np.ndarray:
    for number, layer in enumerate(layers, start=1):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)
        x = x if number == len(layers) else np.tanh(x)
    return x


def convolution(layer: Conv, x: np.ndarray) -> np.ndarray:
    size = layer.kernel.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    windows = windows[:, :: layer.stride, :: layer.stride]
    y = np.einsum("oihw,iabhw->oab", np.asarray(layer.kernel, np.float64), windows)
    return np.maximum(y + np.asarray(layer.bias, np.float64)[:, None, None], 0)


@pytest.mark.parametrize(("spec", "gain"), [(VECTOR, 0.01), (SEVERAL, 0.01), (CONTINUOUS, 1.0)])
def test_perceptrons_start_orthogonal_with_the_gains_of_the_literature(spec: EnvSpec, gain: float) -> None:
    network = network_of(fresh(Architecture(spec, (64, 32))))
    for layers, head_gain in ((network.actor, gain), (network.critic, sqrt(2))):
        assert [layer.weight.shape[1] for layer in layers[:-1]] == [64, 32]
        for layer, expected in zip(layers, (sqrt(2), sqrt(2), head_gain), strict=True):
            assert_orthogonal(layer.weight, expected)
            np.testing.assert_array_equal(layer.bias, np.zeros(layer.bias.shape))
    assert not np.array_equal(network.actor[0].weight, network.critic[0].weight)


def test_only_boxes_have_deviations() -> None:
    for spec in (VECTOR, SEVERAL):
        assert network_of(fresh(Architecture(spec, (64, 32)))).log_std is None


@pytest.mark.parametrize("count", [1, 2, 6])
def test_the_noise_of_all_actions_together_starts_with_size_one(count: int) -> None:
    spec = EnvSpec((3,), BoxActions((-1.0,) * count, (1.0,) * count))
    log_std = network_of(fresh(Architecture(spec))).log_std
    assert log_std.shape == (count,)
    np.testing.assert_allclose(np.sum(np.exp(2 * log_std)), 1, rtol=1e-6)  # E|noise|² = Σ σ²


def test_deviations_may_be_given() -> None:
    for given in (0.0, -1.5):
        log_std = network_of(fresh(Architecture(CONTINUOUS, initial_log_std=given))).log_std
        np.testing.assert_array_equal(log_std, np.full(2, given, np.float32))


def test_image_networks_start_orthogonal_with_the_gains_of_the_literature() -> None:
    network = network_of(fresh(Architecture(IMAGE)))
    for layer in network.torso:
        assert_orthogonal(layer.kernel.reshape(layer.kernel.shape[0], -1), sqrt(2))
    for layer, gain in ((network.hidden, sqrt(2)), (network.actor, 0.01), (network.critic, 1.0)):
        assert_orthogonal(layer.weight, gain)
    for layer in (*network.torso, network.hidden, network.actor, network.critic):
        np.testing.assert_array_equal(layer.bias, np.zeros(layer.bias.shape))


@pytest.mark.parametrize("spec", [VECTOR, SEVERAL, CONTINUOUS])
def test_perceptrons_match_numpy(spec: EnvSpec) -> None:
    policy = scattered(Architecture(spec))
    network = network_of(policy)
    observation = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    distribution, value = jax.jit(Policy.batch)(policy, jnp.asarray(observation))
    match distribution:
        case Categorical():
            output = distribution.logits
        case MultiCategorical():
            output = jnp.concatenate([distribution.parts.logits[:, 0, :2], distribution.parts.logits[:, 1]], axis=-1)
        case DiagonalGaussian():
            output = distribution.mean
    seen = observation.astype(np.float64)
    np.testing.assert_allclose(output, perceptron(network.actor, seen), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(value, perceptron(network.critic, seen)[:, 0], rtol=1e-5, atol=1e-6)
    if spec is CONTINUOUS:
        np.testing.assert_array_equal(distribution.log_std, np.tile(network.log_std, (7, 1)))


def test_image_networks_match_numpy() -> None:
    policy = scattered(Architecture(IMAGE))
    network = network_of(policy)
    image = pixels((3, 36, 40))
    x = image / 255
    for layer in network.torso:
        x = convolution(layer, x)
    x = np.maximum(perceptron((network.hidden,), x.ravel()), 0)
    distribution, value = jax.jit(Policy.__call__)(policy, jnp.asarray(image))
    np.testing.assert_allclose(distribution.logits, perceptron((network.actor,), x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value, perceptron((network.critic,), x)[0], rtol=1e-5, atol=1e-5)


def test_channels_may_come_last() -> None:
    first = scattered(Architecture(IMAGE))
    last = Policy(first.parameters, Architecture(LAST))
    image = jnp.asarray(pixels((3, 36, 40)))
    outputs = [jax.jit(Policy.__call__)(*pair) for pair in ((first, image), (last, jnp.moveaxis(image, 0, -1)))]
    for a, b in zip(*map(jax.tree.leaves, outputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_atari_network_has_the_shapes_of_the_literature() -> None:
    shapes = jax.eval_shape(Architecture(EnvSpec((4, 84, 84), DISCRETE, "uint8"))._network, KEY)
    assert [layer.kernel.shape for layer in shapes.torso] == [(32, 4, 8, 8), (64, 32, 4, 4), (32, 64, 3, 3)]
    assert shapes.hidden.weight.shape == (32 * 7 * 7, 512)


def test_the_smallest_image_leaves_one_pixel() -> None:
    smallest = jax.eval_shape(Architecture(EnvSpec((3, 36, 36), DISCRETE, "uint8"))._network, KEY)
    assert can_convolve((3, 36, 36))
    assert smallest.hidden.weight.shape == (32, 512)
    assert not can_convolve((3, 35, 36))
    assert not can_convolve((36, 35, 3))
    small = EnvSpec((7, 7, 3), DISCRETE, "uint8")
    with pytest.raises(TrustaxError, match=r"takes images of at least 36 pixels a side, not the shape \(7, 7, 3\)"):
        Architecture(small).init(KEY)
    assert Architecture(small, network="impala").init(KEY).batch(jnp.zeros((2, 7, 7, 3), jnp.uint8))[1].shape == (2,)


def test_only_images_of_bytes_are_convolved() -> None:
    assert IMAGE.is_image
    assert not EnvSpec((3, 36, 40), DISCRETE).is_image
    distribution, value = scattered(Architecture(EnvSpec((2, 3), DISCRETE)))(jnp.ones((2, 3)))
    assert (distribution.logits.shape, value.shape) == ((4,), ())


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (VECTOR, Categorical),
        (CONTINUOUS, DiagonalGaussian),
        (SEVERAL, MultiCategorical),
        (IMAGE, Categorical),
        (EnvSpec((3, 36, 40), BOX, "uint8"), DiagonalGaussian),
    ],
)
def test_a_policy_gives_the_same_output_alone_and_in_a_batch(spec: EnvSpec, kind: type) -> None:
    policy = scattered(Architecture(spec))
    many = jnp.asarray(pixels((5, *spec.observation_shape))).astype(spec.observation_dtype)
    many = many if spec.is_image else many / 255
    together = jax.jit(Policy.batch)(policy, many)
    assert isinstance(together[0], kind)
    assert together[1].shape == (5,)
    alone = jax.jit(Policy.__call__)(policy, many[2])
    for one, all_ in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(one, all_[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", [VECTOR, CONTINUOUS, IMAGE])
def test_flatten_and_unflatten_are_inverse_bit_by_bit(spec: EnvSpec) -> None:
    architecture = Architecture(spec)
    parameters = jax.random.normal(KEY, (size_of(architecture),))
    network = jax.jit(architecture.unflatten)(parameters)
    np.testing.assert_array_equal(flatten(network), parameters)
    again = jax.jit(lambda network: architecture.unflatten(flatten(network)))(network)
    assert jax.tree.structure(again) == jax.tree.structure(network)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("spec", [VECTOR, CONTINUOUS])
def test_the_gradient_of_the_vector_is_that_of_the_leaves(spec: EnvSpec) -> None:
    policy = scattered(Architecture(spec))
    observation = jnp.array([0.5, -1.0, 2.0])

    def loss(network: Any) -> jax.Array:
        distribution, value = network(observation)
        return distribution.log_prob(jnp.zeros_like(distribution.mode())) + value**2

    by_leaves = jax.jit(jax.grad(loss))(network_of(policy))
    by_vector = jax.jit(jax.grad(loss))(policy)
    np.testing.assert_allclose(by_vector.parameters, flatten(by_leaves), rtol=1e-5, atol=1e-6)
    assert np.count_nonzero(by_vector.parameters) > 0.9 * by_vector.parameters.size


def test_a_policy_has_a_single_leaf() -> None:
    policy = jax.eval_shape(Architecture(CONTINUOUS).init, KEY)
    (leaf,) = jax.tree.leaves(policy)
    assert leaf.ndim == 1
    assert leaf.dtype == jnp.float32
    actor_and_critic = 2 * (3 * 64 + 64 + 64 * 64 + 64) + (64 * 2 + 2) + (64 + 1)
    assert leaf.size == actor_and_critic + 2


def test_equal_architectures_are_compiled_once() -> None:
    traces = []

    @jax.jit
    def value(policy: Policy, observation: jax.Array) -> jax.Array:
        traces.append(policy.architecture)
        return policy(observation)[1]

    for _ in range(3):
        value(scattered(Architecture(EnvSpec((3,), DiscreteActions(4)), (8,))), jnp.ones(3))
    assert len(traces) == 1
    value(scattered(Architecture(EnvSpec((3,), DiscreteActions(4)), (9,))), jnp.ones(3))
    assert len(traces) == 2


def test_policies_may_have_a_seed_axis() -> None:
    architecture = Architecture(VECTOR, (8,))
    parameters = jax.random.normal(KEY, (3, size_of(architecture)))
    policies = jax.vmap(lambda row: Policy(row, architecture))(parameters)
    _, values = jax.jit(jax.vmap(lambda policy: policy(jnp.ones(3))))(policies)
    for seed in range(3):
        _, value = jax.jit(Policy.__call__)(Policy(parameters[seed], architecture), jnp.ones(3))
        np.testing.assert_allclose(values[seed], value, rtol=1e-5)


@pytest.mark.parametrize(("size", "stride"), [(8, 4), (4, 2), (3, 1), (5, 3)])
def test_a_convolution_as_a_product_is_the_same(size: int, stride: int) -> None:
    layer = Conv.init(jax.random.key(0), 4, 6, size, stride)
    image = jax.random.normal(jax.random.key(1), (4, 41, 37))
    np.testing.assert_allclose(layer._products(image), layer._convolution(image), rtol=0, atol=1e-5)
