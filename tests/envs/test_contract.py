"""Properties of all engines: the axes `seed env`, NEXT_STEP autoreset, and random streams that depend on the seed."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

from trustax.envs import CompiledEnvironment, make
from trustax.types import BoxActions, DiscreteActions, EnvSpec, TimeStep

SEEDS = (5, 2, 9)

each_form = pytest.mark.parametrize(
    ("engine", "compiled"),
    [("native", True), ("native", False), ("envpool", True), ("envpool", False), ("gymnasium", False)],
)


@functools.cache
def play(env: str, compiled: bool, seeds: tuple[int, ...] = SEEDS) -> tuple[EnvSpec, Any, TimeStep]:
    """The spec, the observations, which have one more row, and the time steps; axes `time seed env`."""
    if env.startswith("envpool"):
        pytest.importorskip("envpool")
    environment = make(env, seeds, 2, compiled)
    actions = random_actions(env, seeds)
    if isinstance(environment, CompiledEnvironment):
        assert compiled
        state, first = environment.reset()
        _, timesteps = jax.jit(lambda *start: jax.lax.scan(environment.step, *start))(state, actions)
        timesteps = jax.tree.map(np.asarray, timesteps)
    else:
        first = environment.reset()
        assert isinstance(first, np.ndarray)
        timesteps = jax.tree.map(lambda *rows: np.stack(rows), *map(environment.step, actions))
    environment.close()
    return environment.spec, np.concatenate([np.asarray(first)[None], timesteps.observation]), timesteps


def random_actions(env: str, seeds: tuple[int, ...]) -> np.ndarray:
    """Enough actions for more than two episodes; the same for every seed."""
    generator = np.random.default_rng(0)
    if env.endswith("CartPole-v1"):
        return np.repeat(generator.integers(0, 2, (120, 1, 2)).astype(np.int32), len(seeds), axis=1)
    return np.repeat(generator.uniform(-2, 2, (403, 1, 2, 1)).astype(np.float32), len(seeds), axis=1)


def row_after(ending: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(ending[:1]), ending[:-1]])


@each_form
def test_axes_and_dtypes(engine: str, compiled: bool) -> None:
    for name, actions in (("Pendulum-v1", BoxActions((-2.0,), (2.0,))), ("CartPole-v1", DiscreteActions(2))):
        spec, observation, step = play(f"{engine}:{name}", compiled)
        assert spec.actions == actions
        assert spec.observation_dtype == observation.dtype == step.observation.dtype == "float32"
        assert observation.shape[1:] == (3, 2, *spec.observation_shape)
        assert step.reward.shape == step.terminated.shape == step.truncated.shape == observation[1:].shape[:3]
        assert step.reward.dtype == np.float32
        assert step.terminated.dtype == step.truncated.dtype == bool


@each_form
def test_a_terminated_episode_ends_on_its_true_last_observation(engine: str, compiled: bool) -> None:
    _, observation, step = play(f"{engine}:CartPole-v1", compiled)
    fallen = (np.abs(observation[1:, ..., 0]) > 2.4) | (np.abs(observation[1:, ..., 2]) > np.radians(12))
    assert step.terminated.any(axis=0).all()
    np.testing.assert_array_equal(fallen, step.terminated)
    assert not step.truncated.any()

    after = row_after(step.terminated)
    assert (np.abs(observation[1:][after]) <= 0.05).all()
    np.testing.assert_array_equal(step.reward, np.where(after, 0.0, 1.0))
    assert not step.terminated[after].any()


@each_form
def test_a_truncated_episode_ends_on_its_true_last_observation(engine: str, compiled: bool) -> None:
    _, observation, step = play(f"{engine}:Pendulum-v1", compiled)
    assert not step.terminated.any()
    # 200 steps, the reset, 200 steps, the reset.
    expected = np.zeros_like(step.truncated)
    expected[[199, 400]] = True
    np.testing.assert_array_equal(step.truncated, expected)
    after = row_after(step.truncated)
    np.testing.assert_array_equal(step.reward == 0, after)

    angle, velocity = np.arctan2(observation[..., 1], observation[..., 0]), observation[1:, ..., 2]
    deviation = np.abs(np.sin((angle[1:] - angle[:-1] - 0.05 * velocity) / 2))
    # Unlike Gymnasium, EnvPool moves the angle by the velocity before it is clipped to 8.
    follows = (deviation < 1e-4) | (np.abs(velocity) == 8)
    np.testing.assert_array_equal(follows, ~after)


@each_form
def test_the_stream_of_a_seed_does_not_depend_on_other_seeds(engine: str, compiled: bool) -> None:
    # The rollout spans several episodes, whose first states also depend on the seed.
    _, observation, _ = play(f"{engine}:CartPole-v1", compiled)
    _, alone, _ = play(f"{engine}:CartPole-v1", compiled, (2,))
    np.testing.assert_allclose(observation[:, 1:2], alone, rtol=0, atol=1e-5)
    assert (observation[0, 0] != observation[0, 1]).any()
    assert (observation[0, :, 0] != observation[0, :, 1]).any()


@pytest.mark.parametrize("engine", ["native", "envpool"])
def test_both_forms_of_an_engine_give_the_same_stream(engine: str) -> None:
    for one, other in zip(
        jax.tree.leaves(play(f"{engine}:CartPole-v1", True)[1:]),
        jax.tree.leaves(play(f"{engine}:CartPole-v1", False)[1:]),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@each_form
def test_the_start_number_determines_all_randomness(engine: str, compiled: bool) -> None:
    environment = make(f"{engine}:CartPole-v1", SEEDS, 2, compiled)
    starts = [0, 0, 7, 7, 8]
    first, again, later, later_again, last = (np.asarray(jax.tree.leaves(environment.reset(n))[-1]) for n in starts)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(later, later_again)
    for one, other in ((first, later), (later, last)):
        assert not np.any(np.all(one == other, axis=-1))
    environment.close()
