"""MDPO's two schedules, and the direction of its divergence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.probes import SPECS, random_rollout
from trustax.algorithms import MDPO, KLFixed
from trustax.types import Progress

TINY: dict[str, Any] = {"num_epochs": 1, "num_minibatches": 2, "hidden_sizes": (8,), "learning_rate": 1e-2}


def costs(method: MDPO, num_iterations: int = 4) -> np.ndarray:
    """The weight of the divergence at every update of a run."""
    state = method.init(jax.random.key(0), SPECS["discrete"])
    rollout = random_rollout(SPECS["discrete"], horizon=6, num_envs=4)
    update, series = jax.jit(method.update), []
    for iteration in range(num_iterations):
        progress = Progress(jnp.array(iteration), jnp.array(num_iterations))
        state, metrics = update(state, rollout, progress, jax.random.key(iteration))
        series.append(metrics["train/kl_cost"])
    return np.concatenate(series)


def test_the_papers_weight_falls_with_every_update() -> None:
    np.testing.assert_allclose(costs(MDPO(kl_cost=2.0, **TINY)), 2 * (1 - np.arange(8) / 8), rtol=1e-6)


def test_the_original_weight_grows_with_every_iteration() -> None:
    expected = 1 / (0.5 * (1 - np.repeat(np.arange(4), 2) / 4))
    np.testing.assert_allclose(costs(MDPO(kl_cost=0.5, schedule="original", **TINY)), expected, rtol=1e-6)


@pytest.mark.parametrize("actions", ["discrete", "box"])
def test_the_divergence_is_taken_from_the_new_policy_to_the_old(actions: str) -> None:
    """Its first steps from θ_old are KL Fixed's, as both divergences agree to second order; later ones are not."""
    mdpo, fixed = MDPO(kl_cost=2.0, **TINY), KLFixed(kl_cost=2.0, **TINY)
    state = mdpo.init(jax.random.key(0), SPECS[actions])
    rollout = random_rollout(SPECS[actions], horizon=6, num_envs=4)
    after = [
        jax.jit(method.update)(state, rollout, Progress(jnp.array(0), jnp.array(10**9)), jax.random.key(1))[0]
        for method in (mdpo, fixed)
    ]
    np.testing.assert_allclose(after[0].policy.parameters, after[1].policy.parameters, atol=2e-3)
    assert not np.array_equal(after[0].policy.parameters, after[1].policy.parameters)
