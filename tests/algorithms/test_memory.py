"""The ring buffer of policies: its contents, their order by rank, and mixtures of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.algorithms.mcpo.memory import PolicyMemory

SIZE = 5
YES, NO = jnp.array(True), jnp.array(False)
write = jax.jit(PolicyMemory.write)
mix = jax.jit(PolicyMemory.mix)
written = jax.jit(PolicyMemory.written)


def policy(number: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(number).normal(size=SIZE), jnp.float32)


def filled_with(count: int, capacity: int) -> PolicyMemory:
    """Policies 0 to count-1, number n written at update 10 n."""
    memory = PolicyMemory.init(capacity, policy(0))
    for number in range(1, count):
        memory = write(memory, policy(number), jnp.array(10 * number), YES)
    return memory


def one_hot(rank: int, capacity: int) -> jax.Array:
    return jnp.asarray(np.eye(capacity, dtype=np.float32)[rank])


@pytest.mark.parametrize("capacity", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_ranks_go_from_newest_to_oldest_and_the_oldest_are_dropped(count: int, capacity: int) -> None:
    memory = filled_with(count, capacity)
    held = min(count, capacity)
    assert memory.size == held
    np.testing.assert_array_equal(memory.filled, np.arange(capacity) < held)
    for rank in range(held):
        newest = count - 1 - rank
        np.testing.assert_array_equal(mix(memory, one_hot(rank, capacity)), policy(newest))
        assert written(memory, jnp.array(rank)) == 10 * newest


def test_mix_is_the_weighted_sum_over_ranks() -> None:
    memory, weights = filled_with(7, 4), np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    exact = sum(float(w) * np.asarray(policy(6 - rank), np.float64) for rank, w in enumerate(weights))
    np.testing.assert_allclose(mix(memory, jnp.asarray(weights)), exact, rtol=1e-5, atol=1e-7)


def test_empty_slots_add_nothing_for_any_weight() -> None:
    memory = filled_with(2, 4)
    got = mix(memory, jnp.array([0.25, 0.75, 9.0, -9.0]))
    np.testing.assert_allclose(got, 0.25 * policy(1) + 0.75 * policy(0), rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_a_skipped_write_changes_nothing(count: int) -> None:
    memory = filled_with(count, 4)
    after = write(memory, policy(99), jnp.array(990), NO)
    for a, b in zip(jax.tree.leaves(memory), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_skipped_writes_leave_no_gaps() -> None:
    memory = PolicyMemory.init(3, policy(0))
    for number in range(1, 10):
        memory = write(memory, policy(number), jnp.array(number), jnp.array(number % 3 == 0))
    assert [int(written(memory, jnp.array(rank))) for rank in range(3)] == [9, 6, 3]
    np.testing.assert_array_equal(mix(memory, one_hot(2, 3)), policy(3))


def test_the_first_policy_was_written_at_update_zero() -> None:
    memory = PolicyMemory.init(3, policy(0))
    assert memory.capacity == 3
    assert (int(memory.size), int(written(memory, jnp.array(0)))) == (1, 0)


def test_a_scan_of_writes_mapped_over_seeds_equals_single_seeds() -> None:
    policies = jax.random.normal(jax.random.key(0), (3, 8, SIZE))
    wanted = jax.random.bernoulli(jax.random.key(1), 0.6, (3, 8))

    def remember(policies: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(memory: PolicyMemory, xs: tuple[jax.Array, ...]) -> tuple[PolicyMemory, None]:
            return memory.write(*xs), None

        memory, _ = jax.lax.scan(step, PolicyMemory.init(4, policies[0]), (policies, jnp.arange(8), wanted))
        return jax.vmap(memory.mix)(jnp.eye(4)), memory.filled

    ranked, filled = jax.jit(jax.vmap(remember))(policies, wanted)
    for seed in range(3):
        kept = [np.asarray(policies[seed, 0]), *np.asarray(policies[seed])[np.asarray(wanted[seed])]]
        newest = kept[::-1][:4]
        assert filled[seed].sum() == len(newest)
        np.testing.assert_allclose(ranked[seed][: len(newest)], newest, rtol=1e-6)


def test_the_gradient_of_the_weights_is_one_product_with_the_memory() -> None:
    memory, slope = filled_with(6, 4), policy(50)
    got = jax.jit(jax.grad(lambda weights: memory.mix(weights) @ slope))(jnp.full(4, 0.25))
    expected = [np.asarray(policy(5 - rank), np.float64) @ np.asarray(slope, np.float64) for rank in range(4)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
