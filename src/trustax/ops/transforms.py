"""Transformations of functions and loops: seeds as a mapped axis, and how a scan is unrolled and compiled."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

Carry = TypeVar("Carry")


def over_seeds(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map a function of one learner over the seed axis of all its arguments.

    A single seed is called directly: a mapped axis of width one still turns slices into gathers and writes into
    scatters, which a small network pays for.

    >>> import jax.numpy as jnp
    >>> over_seeds(lambda x: x + 1)(jnp.zeros((3, 2))).shape
    (3, 2)
    """

    def mapped(*arguments: Any) -> Any:
        if jax.tree.leaves(arguments)[0].shape[0] == 1:
            alone = jax.tree.map(lambda x: x[0], arguments)
            return jax.tree.map(lambda x: x[None], function(*alone))
        return jax.vmap(function)(*arguments)

    return mapped


def unroll_steps(on_cpu: int, on_gpu: int) -> int:
    """A GPU is handed its kernels turn by turn, so long turns keep it busy; on a CPU they mostly take time to compile.

    >>> turn = unroll_steps(on_cpu=1, on_gpu=4)
    >>> jax.lax.scan(lambda x, _: (2 * x, None), 1, None, length=5, unroll=turn)[0].item()
    32
    """
    return on_cpu if jax.default_backend() == "cpu" else on_gpu


def separate_steps(carry: Carry) -> Carry:
    """What a step is handed, unchanged. On a GPU the steps of a turn are thereby compiled one by one.

    Where a step does very little, the compiler would make kernels out of several, which do work twice and, with many
    seeds, take it minutes.
    """
    return carry if jax.default_backend() == "cpu" else jax.lax.optimization_barrier(carry)
