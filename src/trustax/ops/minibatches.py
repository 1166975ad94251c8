"""Epochs of shuffled minibatches."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

from trustax.ops.metrics import MetricRow
from trustax.ops.transforms import device_key, unroll_steps
from trustax.types import Metrics

LARGEST_SORTED = 2**18
"""Larger permutations would have fewer than 14 random bits, so that more than 16 rows have the same ones."""
Carry = TypeVar("Carry")
Batch = TypeVar("Batch")


def shuffles(key: Key[Array, ""], count: int, size: int) -> UInt32[Array, "count size"]:
    """`count` random permutations of the numbers below `size`.

    Each permutation is one sort of random numbers that carry an index in their low bits. This takes an eighth of the
    time of `jax.random.permutation`, which sorts pairs, and twice. Numbers whose random bits are equal keep their
    order: 64 pairs in 8192 numbers, and more in larger permutations, because their indices leave fewer random bits.

    >>> [sorted(order) for order in shuffles(jax.random.key(0), 2, 5).tolist()]
    [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    """
    if size > LARGEST_SORTED:
        return jax.vmap(lambda one: jax.random.permutation(one, size))(jax.random.split(key, count)).astype(jnp.uint32)
    low_bits = jnp.uint32((1 << (size - 1).bit_length()) - 1)
    random_bits = jax.random.bits(key, (count, size))
    return jnp.sort((random_bits & ~low_bits) | jnp.arange(size, dtype=jnp.uint32)[None]) & low_bits


def over_minibatches(
    step: Callable[[Carry, Batch, Any], tuple[Carry, Metrics]],
    carry: Carry,
    batch: Batch,
    key: Key[Array, ""],
    num_epochs: int,
    num_minibatches: int,
    draw_noise: Callable[[Key[Array, ""], int], Any] = lambda key, num_steps: None,
) -> tuple[Carry, Metrics]:
    """Run `step` on every minibatch of every epoch, and shuffle the rows for each epoch.

    All leaves of `batch` share their first axis. Rows that do not fill a minibatch are dropped, different ones in each
    epoch. If environments are divided over devices, each device shuffles its own rows and takes its share of every
    minibatch. `draw_noise` pre-samples the noise of all steps before the loop, one row per step. Returns the last carry
    and the stacked metrics of all steps.

    >>> total, _ = over_minibatches(lambda c, b, _: (c + b.sum(), {}), 0.0, jnp.ones(8), jax.random.key(0), 2, 4)
    >>> float(total)
    16.0
    """
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    size, num_steps = num_rows // num_minibatches, num_epochs * num_minibatches
    order_key, step_key = jax.random.split(key)
    rows = shuffles(device_key(order_key), num_epochs, num_rows)[:, : size * num_minibatches]
    noise = jax.tree.map(
        lambda x: x.reshape(num_epochs, num_minibatches, *x.shape[1:]), draw_noise(step_key, num_steps)
    )

    def minibatch_step(carry: Carry, xs: tuple[Batch, Any]) -> tuple[Carry, MetricRow]:
        carry, metrics = step(carry, *xs)
        return carry, MetricRow.of(metrics)

    def epoch(carry: Carry, xs: tuple[Any, Any]) -> tuple[Carry, MetricRow]:
        order, noise = xs

        def shuffled(x: Array) -> Array:
            return x.at[order].get(mode="promise_in_bounds").reshape(num_minibatches, size, *x.shape[1:])

        xs = jax.tree.map(shuffled, batch), noise
        return jax.lax.scan(minibatch_step, carry, xs, unroll=unroll_steps(on_cpu=1, on_gpu=4))

    carry, metrics = jax.lax.scan(epoch, carry, (rows, noise))
    return carry, jax.tree.map(lambda x: x.reshape(num_steps, x.shape[-1]), metrics).by_name()
