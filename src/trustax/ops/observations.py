"""Structured observations as vectors: dictionaries, tuples and choices become numbers, one after another.

It is what `gymnasium.spaces.flatten` gives for one observation, but for whole batches of them, in NumPy or JAX, and by
plain values that fit into a file: so an agent takes what the environment returns, also where it was loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trustax.errors import TrustaxError


@dataclass(frozen=True)
class Part:
    """One array, or one number, of a structured observation."""

    path: tuple[str | int, ...]
    """The keys that lead to it; none where it is all there is."""
    shape: tuple[int, ...]
    """Its shape in one observation."""
    counts: tuple[int, ...] | None = None
    """Of how many choices each entry is one, where entries are choices; these become one-hot vectors."""
    starts: tuple[int, ...] = ()
    """The first choice of each entry."""

    @property
    def size(self) -> int:
        return prod(self.shape) if self.counts is None else sum(self.counts)

    def flatten(self, value: Any) -> Any:
        """The value as vectors; any axes may stand before its own."""
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        batch = array.shape[: array.ndim - len(self.shape)]
        if array.shape != batch + self.shape:
            raise ValueError(f"{array.shape} does not end in {self.shape}")
        entries = array.reshape(*batch, prod(self.shape))
        if self.counts is not None:
            entry_of_choice = np.repeat(np.arange(len(self.counts)), self.counts)
            choices = np.concatenate([start + np.arange(n) for start, n in zip(self.starts, self.counts, strict=True)])
            entries = entries[..., entry_of_choice] == np.broadcast_to(choices, (*batch, self.size))
        return entries.astype(np.float32)

    def __str__(self) -> str:
        kind = f"shape {self.shape}" if self.counts is None else f"{' x '.join(map(str, self.counts))} choices"
        return f"observation{''.join(f'[{key!r}]' for key in self.path)} ({kind})"


def flatten(parts: tuple[Part, ...], observation: Any) -> Any:
    """A structured observation, or a batch in the same structure, as vectors.

    >>> parts = (Part(("gear",), (), counts=(3,), starts=(1,)), Part(("speed",), (2,)))
    >>> flatten(parts, {"gear": 2, "speed": [0.5, 20.0]})
    array([ 0. ,  1. ,  0. ,  0.5, 20. ], dtype=float32)
    """
    try:
        vectors = [part.flatten(_at(observation, part.path)) for part in parts]
        concatenate = jnp.concatenate if isinstance(vectors[0], jax.Array) else np.concatenate
        return concatenate(vectors, axis=-1)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        expected = ", ".join(map(str, parts))
        raise TrustaxError(f"an observation must be as the environment returns it, with {expected}: {error}") from error


def is_structured(parts: tuple[Part, ...], observation: Any) -> bool:
    """Whether an observation is as the environment returns it, and not flattened yet.

    What is flat is a vector of floats; a choice that stands alone is an integer.
    """
    if parts[0].path:
        return isinstance(observation, Mapping | tuple)
    return np.issubdtype(np.asarray(observation).dtype, np.integer)


def _at(observation: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation
