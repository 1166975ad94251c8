"""Schedules are functions of progress alone, also under `jit` and `vmap`."""

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.algorithms import PPO
from trustax.ops.schedules import Schedule, schedule_factor
from trustax.types import Progress


@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_a_schedule_starts_at_one_never_rises_and_may_be_mapped(schedule: Schedule) -> None:
    def factor(iteration: jax.Array) -> jax.Array:
        return jnp.asarray(schedule_factor(schedule, Progress(iteration, 10), (0.5, 0.8)), jnp.float32)

    factors = np.asarray(jax.jit(jax.vmap(factor))(jnp.arange(10)))
    assert factors[0] == 1
    assert (np.diff(factors) <= 0).all()
    expected = {"constant": 1.0, "linear": 0.1, "cosine": 0.5 * (1 + np.cos(0.9 * np.pi)), "piecewise": 0.01}
    np.testing.assert_allclose(factors[-1], expected[schedule], rtol=1e-5)


def test_the_learning_rate_follows_its_schedule() -> None:
    settings = PPO(learning_rate=2.0, learning_rate_schedule="piecewise", schedule_boundaries=(0.25,))
    rates = [float(settings.learning_rate_at(Progress(iteration, 4))) for iteration in range(4)]
    np.testing.assert_allclose(rates, [2.0, 0.2, 0.2, 0.2], rtol=1e-5)
