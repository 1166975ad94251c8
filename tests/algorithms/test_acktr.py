"""ACKTR's step on the whole rollout, its trust region, its momentum, and the updates of F."""

import dataclasses
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import QUICK_COMPILE, SPECS, random_rollout
from trustax.algorithms import ALGORITHMS
from trustax.algorithms.acktr import ACKTR, ACKTRState
from trustax.networks import Policy
from trustax.ops.advantages import gae
from trustax.training import train
from trustax.types import Progress

SMALL = ACKTR(hidden_sizes=(5, 4), kl_target=1e-4)
KEY = jax.random.key(1)
NUM_ITERATIONS = 20
both_action_kinds = pytest.mark.parametrize("actions", ["discrete", "box"])
as_double = partial(np.asarray, dtype=np.float64)


def at(iteration: int) -> Progress:
    return Progress(jnp.array(iteration), jnp.array(NUM_ITERATIONS))


@lru_cache
def compiled(algorithm: ACKTR = SMALL) -> Any:
    return jax.jit(algorithm.update, compiler_options=QUICK_COMPILE)


@lru_cache
def first_update(actions: str) -> tuple[ACKTRState, Any, ACKTRState, Any]:
    """A learner, a rollout, the learner after it, and its metrics."""
    rollout = random_rollout(SPECS[actions], horizon=5, num_envs=8)
    state = jax.jit(partial(SMALL.init, spec=SPECS[actions]))(jax.random.key(0))
    return state, rollout, *compiled()(state, rollout, at(0), KEY)


def test_a_learner_whose_first_updates_were_skipped_waits_for_a_decomposition() -> None:
    state, rollout, expected, _ = first_update("box")
    waiting, metrics = compiled()(state, rollout, at(1), KEY)
    np.testing.assert_array_equal(waiting.policy.parameters, state.policy.parameters)
    assert metrics["train/trust_region_scale"] == 0
    pairs = zip(waiting.curvature.blocks, expected.curvature.blocks, strict=True)
    for (a, _), (first_a, _) in pairs:
        np.testing.assert_array_equal(a.average, first_a.average)
    _, metrics = compiled()(waiting, rollout, at(10), KEY)
    assert metrics["train/trust_region_scale"] > 0


def natural_gradient(state: ACKTRState, gradient: np.ndarray) -> np.ndarray:
    """(F + λ)⁻¹ g with F written out, block by block, from the averages of a state."""
    pieces, begin = [], 0
    for a, g in state.curvature.blocks:
        fisher = np.kron(as_double(a.average), as_double(g.average))
        piece = gradient[begin : begin + len(fisher)]
        pieces.append(np.linalg.solve(fisher + SMALL.damping * np.eye(len(fisher)), piece))
        begin += len(fisher)
    assert begin == len(gradient)
    return np.concatenate(pieces)


def gradient_of_loss(policy: Policy, rollout: Any) -> np.ndarray:
    """-Ê[(G - V) log π] + c₁ Ê[(G - V)²] - c₂ Ê[H] over the rows with weight, with GAE advantages."""
    shape = rollout.reward.shape
    value = policy.batch(rollout.observation.reshape(-1, 3))[1].reshape(shape[0] + 1, shape[1])
    advantage = gae(rollout.reward, value, rollout.terminated, rollout.truncated, SMALL.discount, SMALL.gae_lambda)
    target, rows = advantage + value[:-1], np.flatnonzero(rollout.weight)

    def loss_of(policy: Policy) -> Any:
        distribution, new = policy.batch(rollout.observation[:-1].reshape(-1, 3)[rows])
        action = rollout.action.reshape(-1, *rollout.action.shape[2:])[rows]
        error = target.ravel()[rows] - new
        policy_loss = -jnp.mean(advantage.ravel()[rows] * distribution.log_prob(action))
        return policy_loss + SMALL.value_cost * jnp.mean(error**2) - SMALL.entropy_cost * distribution.entropy().mean()

    return as_double(jax.jit(jax.grad(loss_of), compiler_options=QUICK_COMPILE)(policy).parameters)


@both_action_kinds
def test_the_step_is_the_natural_gradient_within_the_trust_region(actions: str) -> None:
    state, rollout, after, metrics = first_update(actions)
    gradient = gradient_of_loss(state.policy, rollout)
    direction = natural_gradient(after, gradient)
    q = SMALL.learning_rate**2 * direction @ gradient
    scale = min(1, np.sqrt(SMALL.kl_target / q))
    assert 0 < scale < 1
    np.testing.assert_allclose(metrics["train/trust_region_scale"], scale, rtol=1e-3)
    step = as_double(after.policy.parameters) - as_double(state.policy.parameters)
    expected = -SMALL.learning_rate * (1 - SMALL.momentum) * scale * direction
    assert np.linalg.norm(step - expected) < 1e-3 * np.linalg.norm(expected)


def test_a_rollout_is_one_update() -> None:
    _, _, _, metrics = first_update("discrete")
    assert {np.shape(value) for value in metrics.values()} == {()}
    assert float(metrics["train/approx_kl"]) > 0


@both_action_kinds
def test_momentum_keeps_a_fraction_of_the_last_step(actions: str) -> None:
    _, rollout, after, _ = first_update(actions)
    at_rest = dataclasses.replace(after, velocity=jnp.zeros_like(after.velocity))
    moving, resting = (compiled()(state, rollout, at(1), KEY)[0] for state in (after, at_rest))
    np.testing.assert_allclose(moving.velocity, 0.9 * after.velocity + resting.velocity, rtol=1e-5, atol=1e-7)
    rate = 0.25 * (1 - 1 / NUM_ITERATIONS) * 0.1
    moved = after.policy.parameters - rate * moving.velocity
    np.testing.assert_allclose(moving.policy.parameters, moved, rtol=1e-5, atol=1e-7)


def test_later_iterations_average_and_decompose_at_their_interval() -> None:
    before, rollout, after, _ = first_update("discrete")
    between, _ = compiled()(after, rollout, at(9), jax.random.key(2))
    renewed, _ = compiled()(after, rollout, at(10), jax.random.key(2))
    without_estimates = dataclasses.replace(after, curvature=before.curvature)
    fresh, _ = compiled()(without_estimates, rollout, at(0), jax.random.key(2))
    blocks = (state.curvature.blocks for state in (after, between, renewed, fresh))
    for factors in (pair for block in zip(*blocks, strict=True) for pair in zip(*block, strict=True)):
        old, kept, new, estimate = factors
        expected = 0.99 * old.average + 0.01 * estimate.average
        np.testing.assert_allclose(kept.average, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(kept.vectors, old.vectors)
        rebuilt = new.vectors * new.values[None, :] @ new.vectors.T
        np.testing.assert_allclose(rebuilt, expected, atol=1e-5 * max(1, float(jnp.max(expected))))


@both_action_kinds
def test_rows_without_weight_have_no_influence(actions: str) -> None:
    """Neither on the loss nor on the statistics of the Fisher information."""
    state, rollout, after, _ = first_update(actions)
    idle = np.asarray(rollout.weight) == 0
    idle[-1] = False  # the last observations are bootstrapped from
    unseen = np.concatenate([idle, np.zeros((1, idle.shape[1]), bool)])
    unseen[1:-1] &= ~(np.asarray(rollout.truncated | (rollout.weight > 0) & ~rollout.terminated)[:-1])
    assert unseen.any()
    spoilt = dataclasses.replace(rollout, observation=jnp.where(unseen[..., None], 50.0, rollout.observation))
    again, _ = compiled()(state, spoilt, at(0), KEY)
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_seeds_side_by_side_equal_seeds_alone_when_factors_are_decomposed() -> None:
    spec, keys = SPECS["discrete"], jax.random.split(KEY, 3)
    states = jax.jit(jax.vmap(partial(SMALL.init, spec=spec)))(keys)
    rollouts = [random_rollout(spec, 5, 8, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rollouts)
    abreast = jax.jit(jax.vmap(SMALL.update, (0, 0, None, 0)), compiler_options=QUICK_COMPILE)
    together, _ = abreast(states, stacked, at(0), keys)
    for seed in range(3):
        state = jax.tree.map(lambda x, seed=seed: x[seed], states)
        alone, _ = compiled()(state, rollouts[seed], at(0), keys[seed])
        np.testing.assert_allclose(together.velocity[seed], alone.velocity, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(together.policy.parameters[seed], alone.policy.parameters, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_balances_the_pole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "acktr", ACKTR)
    settings = {"num_envs": 32, "horizon": 128, "total_timesteps": 500_000, "num_seeds": 3}
    result = train(ACKTR(), "CartPole-v1", quiet=True, **settings)
    assert min(result.records[-1]["rollout/ep_rew_mean"]) >= 475
