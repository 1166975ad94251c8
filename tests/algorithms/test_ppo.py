"""PPO against a slow reference in float64, and special cases of its clip range."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.algorithms.test_mcpo import Adam, Network, double, gradients_of_loss, minibatch_rows, samples_of
from tests.probes import QUICK_COMPILE, SPECS, operation_by_operation, random_rollout
from trustax.algorithms import PPO
from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.algorithms.first_order import improve
from trustax.networks import Policy, flatten
from trustax.types import Progress

SMALL = PPO(
    learning_rate=1e-2, num_epochs=2, num_minibatches=4, hidden_sizes=(5, 4), entropy_cost=0.01, clip_range=0.05
)
START = Progress(jnp.array(0), jnp.array(4))
both_action_kinds = pytest.mark.parametrize("actions", ["discrete", "box"])


def reference_update(theta: np.ndarray, actions: str, rollout: Any, key: Any) -> tuple[np.ndarray, list[float]]:
    """All minibatches of one rollout, and the fraction of clipped ratios in each."""
    network, adam, fractions = Network(SPECS[actions], SMALL.hidden_sizes), Adam(), []
    samples = samples_of(network, theta, rollout, SMALL)
    theta_old = theta
    for rows in minibatch_rows(key, SMALL, len(samples.weight)):
        batch = samples.take(rows)
        old, new = (network(x, batch.observation) for x in (theta_old, theta))
        ratio = np.exp(new.distribution.log_prob(batch.action) - old.distribution.log_prob(batch.action))
        outside = np.abs(ratio - 1) > SMALL.clip_range
        # The smaller of the two terms is constant where the ratio has left the range in the direction of a gain.
        flat = outside & (np.sign(ratio - 1) == np.sign(batch.advantage))
        gain = np.where(flat, 0, ratio * batch.advantage)[:, None] * new.distribution.log_prob_gradient(batch.action)
        slopes = gradients_of_loss(batch, new, -batch.share[:, None] * gain, SMALL)
        gradient = network.gradient(theta, new, *slopes)
        theta = adam.step(theta, gradient, SMALL.learning_rate, SMALL.max_gradient_norm)
        fractions.append(batch.share @ outside)
    return theta, fractions


@both_action_kinds
def test_update_equals_the_reference(actions: str) -> None:
    """To 1e-4 of the total step: eight float32 steps of Adam differ by about 1e-5, a wrong equation by far more."""
    rollout = random_rollout(SPECS[actions], horizon=5, num_envs=8)
    state = jax.jit(partial(SMALL.init, spec=SPECS[actions]))(jax.random.key(0))
    update = jax.jit(SMALL.update, compiler_options=QUICK_COMPILE)
    after, metrics = update(state, rollout, START, jax.random.key(1))
    theta, fractions = reference_update(double(state.policy), actions, rollout, jax.random.key(1))
    way = np.linalg.norm(theta - double(state.policy))
    assert np.linalg.norm(double(after.policy) - theta) < 1e-4 * way
    np.testing.assert_allclose(metrics["train/clip_fraction"], fractions, atol=1e-6)
    assert fractions[0] == 0
    assert max(fractions) > 0


@pytest.mark.slow
@both_action_kinds
def test_a_huge_clip_range_leaves_the_plain_surrogate(actions: str) -> None:
    """Bit for bit, operation by operation; compiled, XLA may fuse the two programs differently."""
    algorithm = dataclasses.replace(SMALL, clip_range=1e9, num_epochs=1, num_minibatches=2)
    first, rollout = algorithm.init(jax.random.key(0), SPECS[actions]), random_rollout(SPECS[actions], 5, 8)

    def plain(new: Evaluation, batch: Batch, remaining: Any) -> Any:
        return new.ratio * batch.advantage, {}

    with operation_by_operation(first.policy):
        batch = make_batch(first.policy, rollout, algorithm.discount, algorithm.gae_lambda)
        unclipped, _ = improve(algorithm, plain, first, batch, START, jax.random.key(1))
        last, metrics = algorithm.update(first, rollout, START, jax.random.key(1))
    np.testing.assert_array_equal(flatten(last), flatten(unclipped))
    np.testing.assert_array_equal(metrics["train/clip_fraction"], 0)


def batch_with_ratios(
    ratios: list[float], weight: list[float], advantage: list[float] | None = None
) -> tuple[Batch, Evaluation]:
    spec = SPECS["discrete"]
    policy: Policy = PPO(hidden_sizes=(4,)).init(jax.random.key(0), spec).policy
    batch = make_batch(policy, random_rollout(spec, horizon=2, num_envs=2), 0.99, 0.95)
    changes = {"weight": weight} | ({} if advantage is None else {"advantage": advantage})
    batch = dataclasses.replace(batch, **{name: jnp.array(x, jnp.float32) for name, x in changes.items()})
    return batch, dataclasses.replace(evaluate(policy, batch), ratio=jnp.array(ratios))


def test_ratios_outside_the_range_count_as_clipped() -> None:
    batch, new = batch_with_ratios([1.0, 1.3, 0.5, 1.1], weight=[1, 1, 0, 1])
    _, metrics = PPO(clip_range=0.2)._objective(new, batch, jnp.ones(()))
    assert metrics["train/clip_fraction"].tolist() == [0, 1, 1, 0]


def test_gains_are_clipped_and_losses_are_not() -> None:
    ratios = [1.5, 0.5, 1.5, 0.5]
    batch, new = batch_with_ratios(ratios, weight=[1, 1, 1, 1], advantage=[1, 1, -1, -1])
    gain, _ = PPO(clip_range=0.2)._objective(new, batch, jnp.ones(()))
    assert gain.tolist() == pytest.approx([1.2, 0.5, -1.5, -0.8])
