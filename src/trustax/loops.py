"""How many steps of a loop become one turn of the compiled one, and how they are compiled."""

from typing import TypeVar

import jax

Carry = TypeVar("Carry")


def steps_in_a_turn(on_cpu: int, on_gpu: int) -> int:
    """A GPU is handed its kernels turn by turn, so long turns keep it busy; on a CPU they mostly take time to compile.

    >>> turn = steps_in_a_turn(on_cpu=1, on_gpu=4)
    >>> jax.lax.scan(lambda x, _: (2 * x, None), 1, None, length=5, unroll=turn)[0].item()
    32
    """
    return on_cpu if jax.default_backend() == "cpu" else on_gpu


def each_by_itself(carry: Carry) -> Carry:
    """What a step is handed, unchanged. On a GPU the steps of a turn are thereby compiled one by one.

    Where a step does very little, the compiler would make kernels out of several, which do work twice and, with many
    seeds, take it minutes.
    """
    return carry if jax.default_backend() == "cpu" else jax.lax.optimization_barrier(carry)
