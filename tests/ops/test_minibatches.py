"""Minibatches: which rows of a batch they use, and in which order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.adam import adam_init, adam_step
from trustax.ops.minibatches import over_minibatches, shuffles


def rows_seen(num_rows: int, num_epochs: int, num_minibatches: int, key: jax.Array) -> np.ndarray:
    """The row numbers, `epoch minibatch row`; also checks that all leaves use the same rows."""
    batch = {"row": jnp.arange(num_rows), "pair": jnp.stack([jnp.arange(num_rows)] * 2, axis=1) * 10}

    num_steps, size = num_epochs * num_minibatches, num_rows // num_minibatches

    def look(carry: Any, minibatch: Any, drawn: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        step, seen = carry
        row = jnp.concatenate([minibatch["row"], minibatch["pair"][:, 1], drawn[None]])
        return (step + 1, seen.at[step].set(row)), {}

    def draw(key: jax.Array, num_steps: int) -> jax.Array:
        return jax.random.randint(key, (num_steps,), 0, 2**30)

    start = (jnp.zeros((), jnp.int32), jnp.zeros((num_steps, 2 * size + 1), jnp.int32))
    (steps, seen), _ = over_minibatches(look, start, batch, key, num_epochs, num_minibatches, draw)
    assert steps == num_steps
    np.testing.assert_array_equal(seen[:, size:-1], 10 * seen[:, :size])
    assert len(np.unique(seen[:, -1])) == num_steps
    return np.asarray(seen[:, :size]).reshape(num_epochs, num_minibatches, -1)


def test_every_row_is_used_once_per_epoch_in_a_new_order() -> None:
    epochs = rows_seen(12, num_epochs=5, num_minibatches=3, key=jax.random.key(0)).reshape(5, 12)
    for rows in epochs:
        assert sorted(rows) == list(range(12))
    assert len({tuple(rows) for rows in epochs}) == 5
    assert not np.array_equal(epochs[0], np.arange(12))


def test_leftover_rows_are_dropped_and_differ_between_epochs() -> None:
    epochs = rows_seen(14, num_epochs=6, num_minibatches=4, key=jax.random.key(0))
    assert epochs.shape == (6, 4, 3)
    assert all(len(set(rows.ravel())) == 12 for rows in epochs)
    assert len({frozenset(range(14)) - frozenset(rows.ravel()) for rows in epochs}) > 1


def test_the_order_depends_only_on_the_key() -> None:
    first, again, other = (rows_seen(12, 2, 3, jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_metrics_are_stacked_in_the_order_of_the_steps() -> None:
    def step(carry: jax.Array, batch: jax.Array, _: None) -> tuple[jax.Array, dict[str, jax.Array]]:
        return carry + batch.sum(), {"before": carry, "size": jnp.array(batch.shape[0])}

    total, metrics = over_minibatches(step, jnp.zeros(()), jnp.ones(8), jax.random.key(0), 2, 4)
    assert total == 16
    np.testing.assert_array_equal(metrics["before"], np.arange(0, 16, 2))
    np.testing.assert_array_equal(metrics["size"], np.full(8, 2))


def test_mapping_over_seeds_changes_nothing() -> None:
    data = jax.random.normal(jax.random.key(1), (3, 12, 2))
    keys = jax.random.split(jax.random.key(2), 3)

    def fit(batch: jax.Array, key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        def step(carry: Any, rows: jax.Array, _: None) -> tuple[Any, dict[str, jax.Array]]:
            x, state = carry
            x, state, norm = adam_step(x, x - rows.mean(axis=0), state, 0.1, 0.5)
            return (x, state), {"norm": norm}

        (x, _), metrics = over_minibatches(step, (jnp.zeros(2), adam_init(jnp.zeros(2))), batch, key, 3, 4)
        return x, metrics

    together, metrics = jax.jit(jax.vmap(fit))(data, keys)
    assert metrics["norm"].shape == (3, 12)
    for seed in range(3):
        alone, _ = jax.jit(fit)(data[seed], keys[seed])
        np.testing.assert_allclose(together[seed], alone, rtol=1e-5, atol=1e-7)


def test_large_permutations_do_not_keep_neighbors_in_order() -> None:
    size = 2**20 + 1
    (order,) = np.asarray(shuffles(jax.random.key(0), 1, size))
    np.testing.assert_array_equal(np.sort(order), np.arange(size))
    assert np.mean(order[1:].astype(int) > order[:-1]) == pytest.approx(0.5, abs=0.01)


def test_all_permutations_are_equally_likely() -> None:
    orders = np.asarray(shuffles(jax.random.key(0), 20_000, 5))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(5), (20_000, 1)))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 120
    assert ((counts - 20_000 / 120) ** 2 / (20_000 / 120)).sum() < 180  # χ² with 119 degrees of freedom: p = 3e-4
