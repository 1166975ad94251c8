"""Epochs of shuffled minibatches."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, UInt32

from trustax.types import Metrics

Carry = TypeVar("Carry")
Batch = TypeVar("Batch")


def shuffle(key: Key[Array, ""], size: int) -> UInt32[Array, " size"]:
    """The numbers below `size` in a random order.

    One sort of random numbers that carry an index in their last bits: an eighth of the time of
    `jax.random.permutation`, which sorts pairs, and twice. Equal random parts, 64 pairs in 8192 numbers, stay in order.

    >>> sorted(shuffle(jax.random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    last_bits = jnp.uint32((1 << (size - 1).bit_length()) - 1)
    return jnp.sort((jax.random.bits(key, (size,)) & ~last_bits) | jnp.arange(size, dtype=jnp.uint32)) & last_bits


class _Row(eqx.Module):
    """The metrics of a step as one row: each by itself would leave the loop by an operation of its own."""

    values: Float[Array, "*step metric"]
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, metrics: Metrics) -> "_Row":
        return cls(jnp.stack(list(metrics.values())) if metrics else jnp.zeros(0), tuple(metrics))

    def series(self) -> Metrics:
        """Of all steps, metric by metric."""
        return dict(zip(self.names, self.values.reshape(-1, len(self.names)).T, strict=True)) if self.names else {}


def over_minibatches(
    step: Callable[[Carry, Batch, Any], tuple[Carry, Metrics]],
    carry: Carry,
    batch: Batch,
    key: Key[Array, ""],
    num_epochs: int,
    num_minibatches: int,
    draw: Callable[[Key[Array, ""]], Any] = lambda key: None,
) -> tuple[Carry, Metrics]:
    """Run `step` on every minibatch of every epoch, each epoch in a new order.

    All leaves of `batch` share their first axis. Rows that do not fill a minibatch are dropped, others each epoch.
    What a step needs of chance, `draw` gives, for all of them before the loop. Returns the last carry and the metrics
    of every step, stacked.

    >>> total, _ = over_minibatches(lambda c, b, _: (c + b.sum(), {}), 0.0, jnp.ones(8), jax.random.key(0), 2, 4)
    >>> float(total)
    16.0
    """
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    size = num_rows // num_minibatches
    order_key, step_key = jax.random.split(key)
    orders = jax.vmap(partial(shuffle, size=num_rows))(jax.random.split(order_key, num_epochs))
    rows = orders[:, : size * num_minibatches]
    noise = jax.vmap(jax.vmap(draw))(jax.random.split(step_key, (num_epochs, num_minibatches)))

    def one(carry: Carry, xs: tuple[Batch, Any]) -> tuple[Carry, _Row]:
        carry, metrics = step(carry, *xs)
        return carry, _Row.of(metrics)

    def epoch(carry: Carry, xs: tuple[Any, Any]) -> tuple[Carry, _Row]:
        order, noise = xs

        def shuffled(x: Array) -> Array:
            return x.at[order].get(mode="promise_in_bounds").reshape(num_minibatches, size, *x.shape[1:])

        return jax.lax.scan(one, carry, (jax.tree.map(shuffled, batch), noise))

    carry, told = jax.lax.scan(epoch, carry, (rows, noise))
    return carry, told.series()
