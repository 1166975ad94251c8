"""Special cases in which two algorithms must be equal."""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import QUICK_COMPILE, SPECS, random_rollout
from trustax.algorithms import MCPO, PPO, KLAdaptive, KLFixed
from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, improve
from trustax.types import Progress, Rollout

TINY: dict[str, Any] = {"num_epochs": 2, "num_minibatches": 3, "hidden_sizes": (8,), "learning_rate": 1e-2}
PROGRESS = Progress(jnp.array(1), jnp.array(4))
KEY = jax.random.key(7)

both_action_kinds = pytest.mark.parametrize("actions", ["discrete", pytest.param("box", marks=pytest.mark.slow)])


@lru_cache
def compiled(algorithm: Any) -> Any:
    return jax.jit(algorithm.update, compiler_options=QUICK_COMPILE)


def first(algorithm: Any, actions: str) -> Any:
    return jax.jit(partial(algorithm.init, spec=SPECS[actions]))(jax.random.key(0))


def updated(algorithm: Any, state: Any, actions: str) -> Any:
    rollout = random_rollout(SPECS[actions], horizon=6, num_envs=3)
    return compiled(algorithm)(state, rollout, PROGRESS, KEY)[0]


def plain_surrogate(state: ActorCritic, actions: str) -> ActorCritic:
    """The same loop with the objective Ê[τ A]."""
    settings = KLFixed(**TINY)

    def objective(new: Evaluation, batch: Batch, remaining: Any) -> tuple[Any, dict[str, Any]]:
        return new.ratio * batch.advantage, {}

    def update(state: ActorCritic, rollout: Rollout) -> ActorCritic:
        batch = make_batch(state.policy, rollout, settings.discount, settings.gae_lambda)
        return improve(settings, objective, state, batch, PROGRESS, KEY)[0]

    rollout = random_rollout(SPECS[actions], horizon=6, num_envs=3)
    return jax.jit(update, compiler_options=QUICK_COMPILE)(state, rollout)


def assert_same(a: Any, b: Any) -> None:
    """Up to rounding: two programs need not round alike. Six steps of Adam are 0.06 long; another term shows there."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@both_action_kinds
def test_mcpo_without_the_virtual_region_and_with_a_fixed_cost_is_kl_fixed(actions: str) -> None:
    mcpo = MCPO(trust_region_weight=0.0, kl_cost_rule="fixed", kl_cost=0.7, memory_size=3, **TINY)
    state = first(mcpo, actions)
    assert_same(updated(mcpo, state, actions).learner, updated(KLFixed(kl_cost=0.7, **TINY), state.learner, actions))


@both_action_kinds
def test_mcpo_with_adaptive_cost_and_without_the_virtual_region_is_kl_adaptive(actions: str) -> None:
    mcpo = MCPO(trust_region_weight=0.0, kl_cost_rule="adaptive", kl_target=1e-4, memory_size=3, **TINY)
    adaptive = KLAdaptive(kl_target=1e-4, **TINY)
    state = first(mcpo, actions)
    other = replace(first(adaptive, actions), learner=state.learner)
    for _ in range(2):
        state, other = updated(mcpo, state, actions), updated(adaptive, other, actions)
    assert state.kl_cost == other.kl_cost != 1.0
    assert_same(state.learner, other.learner)


@both_action_kinds
def test_kl_adaptive_before_it_has_adapted_is_kl_fixed(actions: str) -> None:
    adaptive = KLAdaptive(initial_kl_cost=0.7, **TINY)
    state = first(adaptive, actions)
    fixed = updated(KLFixed(kl_cost=0.7, **TINY), state.learner, actions)
    assert_same(updated(adaptive, state, actions).learner, fixed)


@both_action_kinds
def test_kl_fixed_at_no_cost_and_ppo_without_a_limit_are_the_plain_surrogate(actions: str) -> None:
    state = first(KLFixed(**TINY), actions)
    expected = plain_surrogate(state, actions)
    for algorithm in (KLFixed(kl_cost=0.0, **TINY), PPO(clip_range=1e9, **TINY)):
        assert_same(updated(algorithm, state, actions), expected)
