"""Rollouts without a reward: how their advantages are scaled, and what MCPO learns from them."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import SPECS, random_rollout
from trustax.algorithms import MCPO
from trustax.algorithms.batch import Batch, evaluate, make_batch
from trustax.algorithms.mcpo.unrewarded import has_reward, scale_unrewarded
from trustax.ops.distributions import Categorical
from trustax.types import Progress

TINY = MCPO(num_epochs=2, num_minibatches=2, hidden_sizes=(4,), memory_size=3, dropout=0.0)


def batch_with(advantages: list[float]) -> Batch:
    """A batch whose advantages are the given numbers; the last row is no transition."""
    raw = jnp.array([*advantages, 1e3])
    weight = jnp.array([*(1.0 for _ in advantages), 0.0])
    return Batch(
        observation=raw[:, None],
        action=jnp.zeros(len(raw), int),
        advantage=jnp.ones(len(raw)),
        value_target=raw + 1,
        weight=weight,
        old_distribution=Categorical(jnp.zeros((len(raw), 2))),
        old_log_prob=jnp.zeros(len(raw)),
        old_value=jnp.ones(len(raw)),
    )


@pytest.mark.parametrize(
    ("rewarded", "last", "factor", "kept"),
    [
        (True, 0.0, 1.0, 0.5),  # std 2: precision 1/2
        (False, 0.0, 0.0, 0.0),  # nothing was learned about rewards yet
        (False, 0.125, 0.25, 0.125 / 0.97),  # std 2 after 8, which fades
        (False, 4.0, 1.0, 4.0 / 0.97),  # std 2 after 1/4: never enlarged
        (False, 1e5, 1.0, 1e5),  # the limit
    ],
)
def test_advantages_keep_their_size_relative_to_the_last_reward(
    rewarded: bool, last: float, factor: float, kept: float
) -> None:
    batch, precision = scale_unrewarded(batch_with([-1.0, 3.0, -1.0, 3.0]), jnp.array(rewarded), jnp.float32(last))
    np.testing.assert_allclose(batch.advantage, factor, rtol=1e-4)
    assert float(precision) == pytest.approx(kept, rel=1e-4)


def test_a_reward_counts_only_in_a_transition() -> None:
    rollout = random_rollout(SPECS["discrete"], 6, 3)
    assert has_reward(rollout)
    idle = rollout.weight == 0
    assert idle.any()
    assert not has_reward(dataclasses.replace(rollout, reward=jnp.where(idle, 1.0, 0.0)))


def test_before_the_first_reward_only_the_critic_learns() -> None:
    spec = SPECS["discrete"]
    state = jax.jit(partial(TINY.init, spec=spec))(jax.random.key(0))
    rollout = random_rollout(spec, 6, 4)
    silent = dataclasses.replace(rollout, reward=jnp.zeros_like(rollout.reward))
    update = jax.jit(TINY.update)
    progress = Progress(jnp.array(0), jnp.array(4))
    batch = make_batch(state.policy, silent, 0.99, 0.95)
    before = evaluate(state.policy, batch)
    after_silence, metrics = update(state, silent, progress, jax.random.key(1))
    after_reward, _ = update(state, rollout, progress, jax.random.key(1))

    after = evaluate(after_silence.policy, batch)
    np.testing.assert_allclose(after.distribution.logits, before.distribution.logits, atol=1e-5)
    assert float(jnp.max(jnp.abs(after.value - before.value))) > 1e-4
    assert float(after_silence.kl_cost) == TINY.kl_cost_max, "β_max does not fall while there is nothing to learn"
    assert float(after_silence.advantage_precision) == 0.0

    moved = evaluate(after_reward.policy, batch).distribution.logits - before.distribution.logits
    assert float(jnp.max(jnp.abs(moved))) > 1e-4
    assert float(after_reward.advantage_precision) > 0.0
    assert np.isfinite(float(metrics["train/loss"].mean()))


def test_an_adaptive_kl_cost_does_not_fall_without_a_reward() -> None:
    algorithm = dataclasses.replace(TINY, kl_cost_rule="adaptive", kl_cost=2.0)
    spec = SPECS["discrete"]
    state = jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))
    rollout = random_rollout(spec, 6, 4)
    silent = dataclasses.replace(rollout, reward=jnp.zeros_like(rollout.reward))
    after, _ = jax.jit(algorithm.update)(state, silent, Progress(jnp.array(0), jnp.array(4)), jax.random.key(1))
    assert float(after.kl_cost) == 2.0


def test_standardized_learns_from_noise_too() -> None:
    algorithm = dataclasses.replace(TINY, unrewarded_advantages="standardized")
    spec = SPECS["discrete"]
    state = jax.jit(partial(algorithm.init, spec=spec))(jax.random.key(0))
    assert state.advantage_precision is None
    rollout = random_rollout(spec, 6, 4)
    silent = dataclasses.replace(rollout, reward=jnp.zeros_like(rollout.reward))
    progress = Progress(jnp.array(0), jnp.array(4))
    after, _ = jax.jit(algorithm.update)(state, silent, progress, jax.random.key(1))
    batch = make_batch(state.policy, silent, 0.99, 0.95)
    moved = evaluate(after.policy, batch).distribution.logits - batch.old_distribution.logits
    assert float(jnp.max(jnp.abs(moved))) > 1e-4
