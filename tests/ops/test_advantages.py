"""Generalized advantage estimation against a worked example and the explicit sum, and at the ends of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.advantages import gae

GAMMA, LAMBDA = 0.9, 0.8


def brute_force(reward: np.ndarray, value: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
    """Âₜ = Σₖ (γλ)ᵏ δₜ₊ₖ up to and including the first end of an episode."""
    delta = reward + GAMMA * value[1:] * ~terminated - value[:-1]
    advantage = np.zeros_like(delta)
    for time, env in np.ndindex(*delta.shape):
        for k in range(len(delta) - time):
            advantage[time, env] += (GAMMA * LAMBDA) ** k * delta[time + k, env]
            if terminated[time + k, env] or truncated[time + k, env]:
                break
    return advantage


def rollout(seed: int = 0, time: int = 40, env: int = 6) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    reward, value = generator.normal(size=(time, env)), generator.normal(size=(time + 1, env))
    terminated, truncated = generator.random((2, time, env)) < 0.1
    return reward.astype(np.float32), value.astype(np.float32), terminated, truncated


def estimate(*arrays: np.ndarray) -> np.ndarray:
    return np.asarray(gae(*map(jnp.asarray, arrays), GAMMA, LAMBDA))


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("none", [1.078125, 2.3125, 3.25, 3.0]),
        ("terminated", [1.0, 2.0, 2.0, 3.0]),
        ("truncated", [1.03125, 2.125, 2.5, 3.0]),
    ],
)
def test_worked_example(ending: str, expected: list[float]) -> None:
    """γ = λ = ½, every value 1; δ = ½, 1½, 2½, 3 unless the third row terminates, which makes it 2."""
    third = jnp.arange(4) == 2
    never = jnp.zeros(4, bool)
    terminated, truncated = (third if ending == name else never for name in ("terminated", "truncated"))
    reward = jnp.array([1.0, 2.0, 3.0, 3.5])
    advantage = gae(reward, jnp.ones(5), terminated, truncated, 0.5, 0.5)
    np.testing.assert_array_equal(advantage, expected)


def test_matches_the_explicit_sum() -> None:
    reward, value, terminated, truncated = rollout()
    assert (terminated & truncated).any()
    expected = brute_force(reward.astype(np.float64), value.astype(np.float64), terminated, truncated)
    arrays = tuple(map(jnp.asarray, (reward, value, terminated, truncated)))
    compiled = jax.jit(gae, static_argnums=(4, 5))(*arrays, GAMMA, LAMBDA)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-6)
    mapped = jax.vmap(lambda *a: gae(*a, GAMMA, LAMBDA), in_axes=1, out_axes=1)(*arrays)
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-6)


def test_lambda_one_is_the_discounted_return_minus_the_value() -> None:
    reward, value, *_ = rollout(time=10, env=1)
    never = jnp.zeros((10, 1), bool)
    got = gae(jnp.asarray(reward), jnp.asarray(value), never, never, GAMMA, 1.0)
    expected = sum(GAMMA**k * reward[k, 0] for k in range(10)) + GAMMA**10 * value[10, 0] - value[0, 0]
    np.testing.assert_allclose(got[0, 0], expected, rtol=1e-5)


def test_lambda_zero_is_the_one_step_error() -> None:
    reward, value, *_ = rollout()
    never = jnp.zeros(reward.shape, bool)
    got = gae(jnp.asarray(reward), jnp.asarray(value), never, never, GAMMA, 0.0)
    np.testing.assert_allclose(got, reward + GAMMA * value[1:] - value[:-1], rtol=1e-5, atol=1e-6)


def test_truncation_bootstraps_from_the_last_observation_and_termination_does_not() -> None:
    reward, value, *_ = rollout(time=6, env=1)
    ending, never = np.zeros((2, 6, 1), bool)
    ending[3] = True
    terminated, truncated = estimate(reward, value, ending, never), estimate(reward, value, never, ending)
    distance = (GAMMA * LAMBDA) ** np.array([3.0, 2.0, 1.0, 0.0])
    np.testing.assert_allclose((truncated - terminated)[:4, 0], distance * GAMMA * value[4, 0], rtol=1e-4)
    np.testing.assert_array_equal(truncated[4:], terminated[4:])
    np.testing.assert_array_equal(estimate(reward, value, ending, ending), terminated)


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_later_episodes_do_not_leak_into_earlier_rows(kind: str) -> None:
    """The episode ends in row 3, so row 4 only resets; its observation, the true last one, has value[4]."""
    reward, value, *_ = rollout(time=8, env=2)
    ending, never = np.zeros((2, 8, 2), bool)
    ending[3] = True
    flags = (ending, never) if kind == "terminated" else (never, ending)
    other_reward, other_value = reward.copy(), value.copy()
    other_reward[4:] += 100
    other_value[5:] -= 100
    before, after = estimate(reward, value, *flags), estimate(other_reward, other_value, *flags)
    np.testing.assert_array_equal(before[:4], after[:4])
    assert (before[4:] != after[4:]).all()
    other_value[4] += 100
    assert (estimate(reward, other_value, *flags)[:4] == before[:4]).all() == (kind == "terminated")
