"""Seeds are an axis: the first of every array in a run state."""

from collections.abc import Callable
from typing import Any

import jax


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
