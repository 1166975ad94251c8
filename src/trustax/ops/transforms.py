"""Transformations of functions and loops: mapping over seeds and devices, and how a scan is unrolled and compiled."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jaxtyping import Array, Key

Carry = TypeVar("Carry")
Tree = TypeVar("Tree")
ENVS = "envs"
"""The axis of the devices that share the environments of each learner (see `trustax.runtime.env_shards`)."""


def over_seeds(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one learner over the seed axis of all its arguments.

    A single seed is called directly: even a mapped axis of size one turns slices into gathers and writes into
    scatters, which slows down small networks.

    >>> import jax.numpy as jnp
    >>> over_seeds(lambda x: x + 1)(jnp.zeros((3, 2))).shape
    (3, 2)
    """

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] == 1:
            single = jax.tree.map(lambda x: x[0], arguments)
            return jax.tree.map(lambda x: x[None], function(*single))
        return jax.vmap(function)(*arguments)

    return mapped


def unroll_steps(on_cpu: int, on_gpu: int) -> int:
    """How many steps of a scan to unroll on the default backend.

    Unrolled steps keep a GPU busy, because its kernels are launched one loop iteration at a time; on a CPU they mostly
    add compilation time.

    >>> unroll = unroll_steps(on_cpu=1, on_gpu=4)
    >>> jax.lax.scan(lambda x, _: (2 * x, None), 1, None, length=5, unroll=unroll)[0].item()
    32
    """
    return on_cpu if jax.default_backend() == "cpu" else on_gpu


def separate_steps(carry: Carry) -> Carry:
    """Return the carry unchanged, and on a GPU keep the compiler from fusing consecutive unrolled steps.

    When a step does very little, the compiler would fuse several steps into kernels that do work twice and, with many
    seeds, take minutes to compile.
    """
    return carry if jax.default_backend() == "cpu" else jax.lax.optimization_barrier(carry)


def is_divided() -> bool:
    """Whether the environments of a learner are divided over devices, and this is traced for one of them."""
    return ENVS in jax.sharding.get_abstract_mesh().manual_axes


def sum_over_devices(tree: Tree) -> Tree:
    """Sums over all environments from the sums over those of this device; unchanged if they are not divided."""
    return jax.lax.psum(tree, ENVS) if is_divided() else tree


def mean_over_devices(tree: Tree) -> Tree:
    """The mean over the devices; unchanged if environments are not divided.

    The mean of the devices' gradients is the gradient of an objective that contains sums over the devices.
    """
    return jax.lax.pmean(tree, ENVS) if is_divided() else tree


def all_over_devices(tree: Tree) -> Tree:
    """Whether flags are True on all devices; unchanged if environments are not divided."""
    return jax.tree.map(lambda flag: jax.lax.pmin(flag.astype(int), ENVS) > 0, tree) if is_divided() else tree


def gather_environments(tree: Tree, axis: int) -> Tree:
    """The rows of all environments from those of this device; unchanged if they are not divided."""
    return jax.lax.all_gather(tree, ENVS, axis=axis, tiled=True) if is_divided() else tree


def device_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """A key of this device alone; unchanged if environments are not divided."""
    return jax.random.fold_in(key, jax.lax.axis_index(ENVS)) if is_divided() else key
