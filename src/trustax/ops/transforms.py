"""Transformations of functions and loops: mapping over seeds, and how a scan is unrolled and compiled."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

Carry = TypeVar("Carry")


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
