"""Flatten structured observations: dictionaries, tuples and discrete values become one vector.

The result is that of `gymnasium.spaces.flatten`, but also for whole batches, and in NumPy or JAX. The structure is
described by plain values that are saved with an agent, so a loaded agent takes observations as the environment returns
them.
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
    """One array or scalar of a structured observation."""

    path: tuple[str | int, ...]
    """The keys that lead to it; empty if it is the whole observation."""
    shape: tuple[int, ...]
    """Its shape in one observation."""
    counts: tuple[int, ...] | None = None
    """The number of choices of each entry if entries are discrete, which become one-hot vectors; else None."""
    starts: tuple[int, ...] = ()
    """The smallest value of each discrete entry."""

    @property
    def size(self) -> int:
        return prod(self.shape) if self.counts is None else sum(self.counts)

    def flatten(self, value: Any) -> Any:
        """Flatten a value to a vector; it may have leading batch axes."""
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        batch = array.shape[: array.ndim - len(self.shape)]
        if array.shape != batch + self.shape:
            raise ValueError(f"{array.shape} does not end in {self.shape}")
        entries = array.reshape(*batch, prod(self.shape))
        if self.counts is not None:
            if isinstance(entries, np.ndarray):
                self._require_choices(entries)
            entry_of_choice = np.repeat(np.arange(len(self.counts)), self.counts)
            choices = np.concatenate([start + np.arange(n) for start, n in zip(self.starts, self.counts, strict=True)])
            entries = entries[..., entry_of_choice] == np.broadcast_to(choices, (*batch, self.size))
        return entries.astype(np.float32)

    def _require_choices(self, entries: np.ndarray) -> None:
        """A value that is none of the choices would become a vector of zeros."""
        starts = np.asarray(self.starts)
        ends = starts + np.asarray(self.counts)
        if not ((starts <= entries) & (entries < ends)).all():
            choices = ", ".join(f"{start} to {end - 1}" for start, end in zip(starts, ends, strict=True))
            raise ValueError(f"{self} has the values {choices}, not {' '.join(str(entries).split())[:99]}")

    def __str__(self) -> str:
        kind = f"shape {self.shape}" if self.counts is None else f"{' x '.join(map(str, self.counts))} choices"
        return f"observation{''.join(f'[{key!r}]' for key in self.path)} ({kind})"


def flatten(parts: tuple[Part, ...], observation: Any) -> Any:
    """Flatten a structured observation, or a batch with the same structure.

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
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        raise TrustaxError(
            f"an observation must be as the environment returns it, with {expected}; {problem}"
        ) from error


def is_structured(parts: tuple[Part, ...], observation: Any) -> bool:
    """Whether an observation is as the environment returns it, and not flattened yet.

    A flattened observation is a vector of floats; an observation that is a single discrete value is an integer.
    """
    if parts[0].path:
        return isinstance(observation, Mapping | tuple)
    return np.issubdtype(np.asarray(observation).dtype, np.integer)


def _at(observation: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation
