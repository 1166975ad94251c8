"""Epochs of shuffled minibatches, and the optimiser step they are made of."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from trustax.types import Metrics

Carry = TypeVar("Carry")
Batch = TypeVar("Batch")

_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-5)

AdamState = Any


def adam_init(parameters: Any) -> AdamState:
    """Adam's moments, at zero."""
    return _ADAM.init(parameters)


def adam_step(
    parameters: Any,
    gradient: Any,
    state: AdamState,
    learning_rate: Float[Array, ""] | float,
    max_gradient_norm: float,
) -> tuple[Any, AdamState, Float[Array, ""]]:
    """One step of Adam (ε = 1e-5) down the gradient, whose global norm is clipped first and returned."""
    norm = optax.tree.norm(gradient)
    shrink = jnp.minimum(1.0, max_gradient_norm / (norm + 1e-6))
    direction, state = _ADAM.update(jax.tree.map(lambda g: shrink * g, gradient), state)
    return jax.tree.map(lambda p, d: p - learning_rate * d, parameters, direction), state, norm


def over_minibatches(
    step: Callable[[Carry, Batch, Key[Array, ""]], tuple[Carry, Metrics]],
    carry: Carry,
    batch: Batch,
    key: Key[Array, ""],
    num_epochs: int,
    num_minibatches: int,
) -> tuple[Carry, Metrics]:
    """Run `step` on every minibatch of every epoch, each epoch in a new order.

    All leaves of `batch` share their first axis. Rows that do not fill a minibatch are dropped, others each epoch.
    Returns the last carry and the metrics of every step, stacked.

    >>> total, _ = over_minibatches(lambda c, b, k: (c + b.sum(), {}), 0.0, jnp.ones(8), jax.random.key(0), 2, 4)
    >>> float(total)
    16.0
    """
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    size = num_rows // num_minibatches
    order_key, step_key = jax.random.split(key)
    orders = jax.vmap(lambda k: jax.random.permutation(k, num_rows))(jax.random.split(order_key, num_epochs))
    rows = orders[:, : size * num_minibatches].reshape(num_epochs * num_minibatches, size)

    def one(carry: Carry, xs: tuple[Any, Key[Array, ""]]) -> tuple[Carry, Metrics]:
        chosen, key = xs
        minibatch = jax.tree.map(lambda x: x.at[chosen].get(mode="promise_in_bounds"), batch)
        return step(carry, minibatch, key)

    return jax.lax.scan(one, carry, (rows, jax.random.split(step_key, rows.shape[0])))
