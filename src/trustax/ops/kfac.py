"""Kronecker-factored curvature: the Fisher information of every layer as A ⊗ G.

    F ≈ E[a aᵀ] ⊗ E[g gᵀ]   with   a = input of a layer,   g = ∂ℓ/∂(output of the layer)
    (F + λ)⁻¹ vec(X) = vec(Q_A [(Q_Aᵀ X Q_G) / (d_A d_Gᵀ + λ)] Q_Gᵀ)   for a gradient X that is `into x out`

A network is divided into blocks, one for each of its arrays: the weights of a layer, its bias (a layer whose input is
the constant 1), and the log standard deviations (the same). Blocks are in the order of the network's arrays.

Martens, Grosse: Optimizing Neural Networks with Kronecker-factored Approximate Curvature. ICML 2015. arXiv:1503.05671
Grosse, Martens: A Kronecker-factored approximate Fisher matrix for convolution layers. ICML 2016. arXiv:1602.01407
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.lax import Precision, stop_gradient
from jaxtyping import Array, Bool, Float, Shaped

from trustax.errors import TrustaxError
from trustax.networks import Architecture, Conv, Dense, Policy, flatten
from trustax.ops.distributions import Distribution

EIGENVALUE_FLOOR = 1e-6
"""Eigenvalues up to this value are treated as 0 with a rounding error."""

Matrix = Float[Array, "row column"]
Square = Float[Array, "size size"]
Samples = Float[Array, " batch"]
Vector = Float[Array, " parameter"]
Pair = tuple[Float[Array, "_ _"], Float[Array, "_ _"]]
"""A and G of a block"""


class Factor(eqx.Module):
    """A or G of one block: its running average, and the eigendecomposition from the last call of `decompose`."""

    average: Square
    values: Float[Array, " size"]
    """d"""
    vectors: Square
    """Q, where the average was Q diag(d) Qᵀ"""

    @classmethod
    def init(cls, size: int) -> "Factor":
        return cls(jnp.zeros((size, size)), jnp.zeros(size), jnp.eye(size))

    def decompose(self) -> "Factor":
        values, vectors = _eigh(self.average)
        return Factor(self.average, jnp.where(values > EIGENVALUE_FLOOR, values, 0.0), vectors)


class KroneckerFactors(eqx.Module):
    """The Fisher information of a policy, as a pair of factors (A, G) for every block."""

    blocks: tuple[tuple[Factor, Factor], ...]

    @classmethod
    def init(cls, architecture: Architecture) -> "KroneckerFactors":
        policy = jax.eval_shape(architecture.init, jax.random.key(0))
        arrays = jax.tree.leaves(jax.eval_shape(architecture.unflatten, policy.parameters))
        shapes = [jax.eval_shape(_as_matrix, array).shape for array in arrays]
        return cls(tuple((Factor.init(into), Factor.init(out)) for into, out in shapes))

    @property
    def is_decomposed(self) -> Bool[Array, ""]:
        """Whether `decompose` has ever seen an estimate; the gradients G may all be 0, the inputs A never are."""
        return jnp.any(jnp.stack([jnp.any(a.values) for a, _ in self.blocks]))

    def average(self, estimates: list[Pair], decay: Float[Array, ""] | float) -> "KroneckerFactors":
        """Update the running averages with new estimates; the first estimates replace them."""
        has_estimates = jnp.any(jnp.stack([jnp.any(a.average) for a, _ in self.blocks]))
        old_weight = jnp.where(has_estimates, decay, 0.0)

        def update(factor: Factor, estimate: Square) -> Factor:
            return Factor(old_weight * factor.average + (1 - old_weight) * estimate, factor.values, factor.vectors)

        pairs = zip(self.blocks, estimates, strict=True)
        return KroneckerFactors(tuple((update(a, new_a), update(g, new_g)) for (a, g), (new_a, new_g) in pairs))

    def decompose(self, due: Bool[Array, ""]) -> "KroneckerFactors":
        """Recompute the eigendecompositions if `due`."""

        def decomposed(curvature: KroneckerFactors) -> KroneckerFactors:
            return KroneckerFactors(tuple((a.decompose(), g.decompose()) for a, g in curvature.blocks))

        return jax.lax.cond(due, decomposed, lambda curvature: curvature, self)

    def precondition(self, gradient: Policy, damping: Float[Array, ""] | float) -> Vector:
        """(F + λ)⁻¹ g, the natural gradient; λ is added to the products of the eigenvalues."""
        arrays, structure = jax.tree.flatten(gradient.architecture.unflatten(gradient.parameters))
        natural = [
            _from_matrix(_solve(a, g, _as_matrix(array), damping), array.shape)
            for (a, g), array in zip(self.blocks, arrays, strict=True)
        ]
        return flatten(jax.tree.unflatten(structure, natural))


def require_factors(architecture: Architecture) -> None:
    """Refuse a network with other parameters than those of `Dense` and `Conv`, each called once, and single vectors."""
    spec = architecture.spec
    policy = jax.eval_shape(architecture.init, jax.random.key(0))
    layers, _ = _layers(eqx.filter_eval_shape(architecture.unflatten, policy.parameters))

    def tap(parameters: Vector, observation: Array) -> list[Array]:
        return _run_with_offsets(architecture.unflatten(parameters), [0.0] * len(layers), observation)[2]

    try:
        if not all(isinstance(layer, Dense | Conv) or layer.ndim == 1 for layer in layers):
            raise TypeError("a parameter of no layer")
        jax.eval_shape(tap, policy.parameters, jax.ShapeDtypeStruct(spec.observation_shape, spec.observation_dtype))
    except (AttributeError, TypeError) as error:
        raise TrustaxError(
            f"acktr has no Kronecker factors for the network {architecture.network!r}: its parameters must be those of "
            "trustax.networks.Dense and Conv layers, each called once, and vectors"
        ) from error


def trust_region_scale(
    direction: Vector, gradient: Vector, learning_rate: Float[Array, ""] | float, kl_target: Float[Array, ""] | float
) -> Float[Array, ""]:
    """ν = min(1, √(δ/q)) with q = lr² ⟨direction, gradient⟩, about twice the KL divergence of a step lr·direction.

    >>> trust_region_scale(jnp.array([2.0]), jnp.array([2.0]), learning_rate=0.5, kl_target=0.25)
    Array(0.5, dtype=float32)
    """
    q = learning_rate**2 * (direction @ gradient)
    return jnp.minimum(1.0, jnp.sqrt(kl_target / jnp.maximum(q, jnp.finfo(q.dtype).tiny)))


def fisher_factors(
    policy: Policy,
    observation: Shaped[Array, "batch ..."],
    action: Shaped[Array, "batch ..."],
    value_noise: Samples,
    weight: Samples,
) -> list[Pair]:
    """A and G of every block, from the policy's actions and a value drawn from a normal distribution around V.

    The loss of one sample is ℓ = -log π(a|s) - (V - sg(V + noise))². Rows are weighted by `weight`.
    """
    network = policy.architecture.unflatten(policy.parameters)
    layers = _layers(network)[0]
    _, _, _, outputs = jax.eval_shape(lambda x: _run_with_offsets(network, [0.0] * len(layers), x), observation[0])
    offsets = [jnp.zeros(output.shape) for output in outputs]

    def sample_loss(offsets: list[Array], observation: Array, action: Array, noise: Array) -> tuple[Array, list[Array]]:
        distribution, value, inputs, _ = _run_with_offsets(network, offsets, observation)
        return -distribution.log_prob(action) - (value - stop_gradient(value + noise)) ** 2, inputs

    batch_gradient = jax.vmap(jax.grad(sample_loss, has_aux=True), in_axes=(None, 0, 0, 0))
    gradients, inputs = batch_gradient(offsets, observation, action, value_noise)
    estimates: list[Pair] = []
    for layer, layer_input, gradient in zip(layers, inputs, gradients, strict=True):
        estimates += _estimates(layer, layer_input, gradient, weight)
    return estimates


def _layers(network: Any) -> tuple[list[Any], Any]:
    """The layers of a network, with its log standard deviations as one more, and the tree structure to rebuild it."""
    return jax.tree.flatten(network, is_leaf=lambda node: isinstance(node, Dense | Conv))


def _run_with_offsets(
    network: Any, offsets: list[Any], observation: Array
) -> tuple[Distribution, Float[Array, ""], list[Array], list[Array]]:
    """Run the network with an offset added to the output of each layer: π, V, and the inputs and outputs of all layers.

    The gradient with respect to an offset is the gradient with respect to the output of that layer.
    """
    layers, structure = _layers(network)
    nothing = jnp.ones(1)
    inputs, outputs = ([nothing] * len(layers) for _ in range(2))

    def wrap(index: int) -> Any:
        def call(x: Array) -> Array:
            if inputs[index] is not nothing:
                raise TypeError("a layer is called twice")
            inputs[index], outputs[index] = x, layers[index](x) + offsets[index]
            return outputs[index]

        if isinstance(layers[index], Dense | Conv):
            return call
        outputs[index] = layers[index] + offsets[index]
        return outputs[index]

    wrapped = [wrap(index) for index in range(len(layers))]
    distribution, value = jax.tree.unflatten(structure, wrapped)(observation)
    return distribution, value, inputs, outputs


def _estimates(layer: Any, layer_input: Array, gradient: Array, weight: Samples) -> list[Pair]:
    """A and G of the blocks of one layer, from its input and the gradient of its output for each sample."""
    share = weight / jnp.maximum(jnp.sum(weight), 1.0)
    constant = jnp.ones((1, 1))
    if isinstance(layer, Dense):
        outputs = _second_moment(gradient, share)
        return [(_second_moment(layer_input, share), outputs), (constant, outputs)]
    if isinstance(layer, Conv):
        bias = (constant, _second_moment(jnp.sum(gradient, axis=(2, 3)), share))
        return [_convolution_moments(layer, layer_input, gradient, share), bias]
    return [(constant, _second_moment(gradient, share))]


def _second_moment(rows: Float[Array, "batch size"], share: Samples) -> Square:
    """Σ p x xᵀ, where p is the normalized weight of a row."""
    return jnp.matmul((share[:, None] * rows).T, rows, precision="highest")


def _convolution_moments(
    layer: Conv,
    images: Float[Array, "batch into height width"],
    gradient: Float[Array, "batch out height2 width2"],
    share: Samples,
) -> Pair:
    """A = Σ p a aᵀ / S² and G = S Σ p g gᵀ, over all samples and all S positions of a patch.

    The product A ⊗ G equals that of Grosse and Martens, who divide A by 1 and G by S.
    """
    out, into, size, _ = layer.kernel.shape
    _, _, height, width = gradient.shape
    positions = height * width

    def add_row(total: Square, row: Array) -> tuple[Square, None]:
        # Extracting all patches at once would take size² / stride² times the memory of the images.
        strip = jax.lax.dynamic_slice_in_dim(images, row * layer.stride, size, axis=2)
        patches = jax.lax.conv_general_dilated_patches(
            strip, (size, size), (layer.stride, layer.stride), "VALID", precision=Precision.HIGHEST
        )
        rows = jnp.moveaxis(patches[:, :, 0], 1, 2).reshape(-1, into * size**2)
        return total + _second_moment(rows, jnp.repeat(share, width)), None

    inputs, _ = jax.lax.scan(add_row, jnp.zeros((into * size**2,) * 2), jnp.arange(height))
    outputs = _second_moment(jnp.moveaxis(gradient, 1, 3).reshape(-1, out), jnp.repeat(share, positions))
    return inputs / positions**2, outputs * positions


@sequential_vmap
def _eigh(matrix: Square) -> tuple[Float[Array, " size"], Square]:
    """Eigenvalues and eigenvectors; a batch of matrices is decomposed one by one.

    On the CPU, jaxlib 0.10 distributes a batch over XLA's thread pool and waits for it on a thread of the same pool, so
    as many concurrent calls as there are threads deadlock. A single matrix is decomposed on the calling thread.
    """
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


def _solve(inputs: Factor, outputs: Factor, gradient: Matrix, damping: Float[Array, ""] | float) -> Matrix:
    """Q_A [(Q_Aᵀ X Q_G) / (d_A d_Gᵀ + λ)] Q_Gᵀ; in full precision, because the divisor may be small."""
    with jax.default_matmul_precision("highest"):
        rotated = inputs.vectors.T @ gradient @ outputs.vectors
        scaled = rotated / (inputs.values[:, None] * outputs.values[None, :] + damping)
        return inputs.vectors @ scaled @ outputs.vectors.T


def _as_matrix(array: Array) -> Matrix:
    """Reshape the array of a block to `into x out`."""
    if array.ndim == 1:
        return array[None]
    return array if array.ndim == 2 else array.reshape(array.shape[0], -1).T


def _from_matrix(matrix: Matrix, shape: tuple[int, ...]) -> Array:
    """Undo `_as_matrix`."""
    return matrix.reshape(shape) if len(shape) < 3 else matrix.T.reshape(shape)
