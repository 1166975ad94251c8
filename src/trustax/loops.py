"""How many steps of a loop become one turn of the compiled one."""

import jax


def steps_in_a_turn(on_cpu: int, on_gpu: int) -> int:
    """A GPU is handed its kernels turn by turn, so long turns keep it busy; on a CPU they mostly take time to compile.

    >>> jax.lax.scan(lambda x, _: (2 * x, None), 1, None, length=5, unroll=steps_in_a_turn(1, on_gpu=4))[0].item()
    32
    """
    return on_cpu if jax.default_backend() == "cpu" else on_gpu
