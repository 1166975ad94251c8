"""V-MPO's losses against float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from tests.probes import SPECS, random_rollout
from trustax.algorithms import VMPO
from trustax.algorithms.vmpo import Duals, better_half
from trustax.types import Progress

TINY: dict[str, Any] = {"num_epochs": 1, "num_minibatches": 1, "hidden_sizes": (8,)}


def test_the_better_half_is_chosen_among_the_rows_that_count() -> None:
    advantage = jnp.array([5.0, -1.0, 4.0, 3.0, 2.0, 9.0])
    weight = jnp.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(better_half(advantage, weight), [True, False, True, False, False, False])
    np.testing.assert_array_equal(better_half(advantage, jnp.ones(6)), [True, False, True, False, False, True])
    assert not better_half(advantage, jnp.zeros(6)).any()


def test_dual_losses_and_their_gradients() -> None:
    rng = np.random.default_rng(0)
    advantage = rng.normal(size=10)
    chosen = advantage > 0
    temperature, kl_cost, kl = 0.7, 1.3, 0.25
    method = VMPO(temperature_target=0.02, kl_target=0.1)

    def reference(eta: float, alpha: float) -> float:
        log_mean = np.log(np.mean(np.exp(advantage[chosen] / eta)))
        return eta * 0.02 + eta * log_mean + alpha * (0.1 - kl)

    duals = Duals(jnp.array(temperature), jnp.array(kl_cost))
    arguments = (jnp.asarray(advantage, jnp.float32), jnp.asarray(chosen), jnp.array(kl))
    value, gradient = jax.value_and_grad(method._dual_loss)(duals, *arguments)
    step = 1e-6
    np.testing.assert_allclose(value, reference(temperature, kl_cost), rtol=1e-5)
    slope = (reference(temperature + step, kl_cost) - reference(temperature - step, kl_cost)) / (2 * step)
    np.testing.assert_allclose(gradient.temperature, slope, rtol=1e-4)
    np.testing.assert_allclose(gradient.kl_cost, 0.1 - kl, rtol=1e-6)


def test_duals_are_finite_where_nothing_is_chosen() -> None:
    none = jnp.array([5.0]), jnp.array([False]), jnp.array(0.25)
    gradient = jax.grad(VMPO(temperature_target=0.02)._dual_loss)(Duals(jnp.array(0.7), jnp.array(1.3)), *none)
    assert float(gradient.temperature) == pytest.approx(0.02)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_policy_loss_is_a_weighted_likelihood(reduction: Any) -> None:
    spec = SPECS["discrete"]
    method = VMPO(reduction=reduction, initial_temperature=0.5, initial_kl_cost=2.0, **TINY)
    state = method.init(jax.random.key(0), spec)
    rollout = random_rollout(spec, horizon=6, num_envs=4)
    _, metrics = jax.jit(method.update)(state, rollout, Progress(jnp.array(0), jnp.array(4)), jax.random.key(1))

    from trustax.algorithms.batch import make_batch

    batch = make_batch(state.policy, rollout, method.discount, method.gae_lambda)
    counts = np.asarray(batch.weight) > 0
    advantage = np.where(counts, np.asarray(batch.advantage, np.float64), -np.inf)
    best = np.argsort(-advantage)[: counts.sum() // 2]
    weights = np.exp((advantage[best] - advantage[best].max()) / 0.5)
    weights /= weights.sum()
    loss = -np.sum(weights * np.asarray(batch.old_log_prob, np.float64)[best])
    expected = loss if reduction == "sum" else loss / len(best)
    np.testing.assert_allclose(metrics["train/policy_gradient_loss"], [expected], rtol=1e-5)  # θ = θ_old: no KL yet


def test_duals_never_reach_zero() -> None:
    spec = SPECS["discrete"]
    method = VMPO(initial_kl_cost=1e-3, initial_temperature=1e-3, learning_rate=1.0, **TINY)
    state = method.init(jax.random.key(0), spec)
    rollout = random_rollout(spec, horizon=6, num_envs=4)
    for iteration in range(3):
        state, _ = jax.jit(method.update)(
            state, rollout, Progress(jnp.array(iteration), jnp.array(4)), jax.random.key(1)
        )
    assert state.duals.kl_cost >= 1e-8
    assert state.duals.temperature >= 1e-8


def test_a_minibatch_needs_a_better_half() -> None:
    run = tx.Run(algorithm=tx.VMPO(num_minibatches=8), env_id="CartPole-v1", num_envs=1, horizon=8, total_timesteps=8)
    with pytest.raises(tx.TrustaxError, match="vmpo learns from the better half of a minibatch"):
        tx.train(run, quiet=True)
