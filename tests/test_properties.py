"""Properties that hold for all inputs: of KL divergences, the memory, the attention, the line search and GAE.

The fast tests try 20 examples; `pytest --hypothesis-profile=full` tries 500.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trustax.algorithms.mcpo.attention import Attention
from trustax.algorithms.mcpo.memory import PolicyMemory
from trustax.networks import Architecture
from trustax.ops.advantages import gae
from trustax.ops.natural_gradient import line_search
from trustax.types import BoxActions, DiscreteActions, EnvSpec

CAPACITY, CONTEXT, TIME = 4, 3, 6
SPECS = {"discrete": EnvSpec((2,), DiscreteActions(3)), "box": EnvSpec((2,), BoxActions((-1.0,), (1.0,)))}
seeds = st.integers(0, 2**31 - 1)
numbers = st.floats(-1e4, 1e4, width=32)


def vectors(size: int, bound: float) -> Any:
    return arrays(np.float32, size, elements=st.floats(-bound, bound, width=32))


@partial(jax.jit, static_argnames="actions")
def divergences(actions: str, first: Any, second: Any, observation: Any) -> tuple[Any, Any]:
    """KL(p‖q) and KL(p‖p) for the policies of two random parameter vectors."""
    policies = [Architecture(SPECS[actions], (3,)).init(jax.random.key(seed)) for seed in (first, second)]
    p, q = (policy.batch(observation[None])[0] for policy in policies)
    return p.kl(q)[0], p.kl(p)[0]


@pytest.mark.parametrize("actions", SPECS)
@given(first=seeds, second=seeds, observation=vectors(2, 1e3))
def test_a_divergence_is_not_negative_and_zero_for_equal_policies(
    actions: str, first: int, second: int, observation: np.ndarray
) -> None:
    different, same = divergences(actions, first, second, observation)
    assert float(different) >= 0.0
    assert float(same) == 0.0


@jax.jit
def written(flags: Any) -> PolicyMemory:
    """A memory after as many attempts to write as there are flags; policy number i has all parameters i."""

    def write(memory: PolicyMemory, step: Any) -> tuple[PolicyMemory, None]:
        number, flag = step
        return memory.write(jnp.full(2, number, jnp.float32), number, flag), None

    start = PolicyMemory.init(CAPACITY, jnp.zeros(2))
    return jax.lax.scan(write, start, (jnp.arange(1, 13), flags))[0]


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_memory_holds_the_newest_policies_and_never_more_than_its_capacity(flags: list[bool]) -> None:
    memory = written(jnp.array(flags))
    newest = [0, *(number for number, flag in enumerate(flags, start=1) if flag)][::-1][:CAPACITY]
    assert int(memory.size) == len(newest) <= CAPACITY
    ranks = np.eye(CAPACITY, dtype=np.float32)[: len(newest)]
    assert [float(memory.mix(jnp.asarray(rank))[0]) for rank in ranks] == newest


@jax.jit
def attention(seed: Any, context: Any, filled: Any) -> Any:
    network = Attention.init(jax.random.key(seed), CONTEXT, CAPACITY)
    return network(context, filled, jnp.ones(CAPACITY))


@given(seed=seeds, context=vectors(CONTEXT, 1e6), size=st.integers(1, CAPACITY))
def test_attention_weights_are_a_distribution_over_the_filled_ranks(seed: int, context: np.ndarray, size: int) -> None:
    weights = np.asarray(attention(seed, context, jnp.arange(CAPACITY) < size))
    assert (weights >= 0).all()
    assert weights[size:].tolist() == [0.0] * (CAPACITY - size)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-6)


@jax.jit
def searched(slope: Any, bend: Any, step: Any, limit: Any) -> tuple[Any, Any, Any]:
    """Search along a parabola, whose divergence is the squared distance."""

    def measure(x: Any) -> tuple[Any, Any]:
        return slope * x[0] - bend * x[0] ** 2, x[0] ** 2

    found = line_search(measure, jnp.zeros(1), step[None], slope * step, limit, num_steps=10)
    return (*measure(found.parameters), found.fraction)


@given(numbers, numbers, numbers, st.floats(0.0009765625, 10, width=32))
def test_the_line_search_never_leaves_the_trust_region_nor_lowers_the_objective(
    slope: float, bend: float, step: float, limit: float
) -> None:
    gain, kl, fraction = (float(value) for value in searched(*map(jnp.float32, (slope, bend, step, limit))))
    assert kl <= limit * (1 + 1e-6)  # computed again, with other roundings
    assert gain > 0 if fraction else gain == 0


advantages = jax.jit(partial(gae, discount=0.9, gae_lambda=0.8))


@given(
    reward=vectors(TIME, 10),
    value=vectors(TIME + 1, 10),
    ends=st.lists(st.sampled_from("-et"), min_size=TIME, max_size=TIME),
)
def test_advantages_equal_the_recursion_in_double_precision(
    reward: np.ndarray, value: np.ndarray, ends: list[str]
) -> None:
    terminated, truncated = (np.array([end == kind for end in ends]) for kind in "et")
    expected, following = np.zeros(TIME), 0.0
    for t in reversed(range(TIME)):
        delta = float(reward[t]) + 0.9 * float(value[t + 1]) * (not terminated[t]) - float(value[t])
        following = expected[t] = delta + 0.9 * 0.8 * following * (ends[t] == "-")
    found = advantages(reward, value, terminated, truncated)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
