"""Gymnax environments: their streams match Gymnax, and time limits are not terminations."""

import shutil
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from tests.probes import QUICK_COMPILE
from trustax.envs import HostAdapter, JaxEnv, VectorizedJaxEnv, engine_of, make
from trustax.envs.gymnax import GymnaxEnv, make_gymnax
from trustax.errors import TrustaxError
from trustax.storage.journal import read_records
from trustax.types import BoxActions, DiscreteActions

gymnax = pytest.importorskip("gymnax")
from gymnax.environments import environment, spaces  # noqa: E402


def random_actions(definition: JaxEnv, count: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    if isinstance(definition.spec.actions, DiscreteActions):
        return generator.integers(0, definition.spec.actions.count, count).astype(np.int32)
    return generator.uniform(-1, 1, (count, *definition.spec.actions.shape)).astype(np.float32)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Breakout-MinAtar", "SpaceInvaders-MinAtar"])
def test_episodes_match_gymnax(env_id: str) -> None:
    definition = make_gymnax(env_id)
    assert isinstance(definition, JaxEnv)
    actions = random_actions(definition, 220)
    state = definition.reset(jax.random.key(3))
    _, (observation, reward, terminated) = jax.jit(lambda *start: jax.lax.scan(follow(definition), *start))(
        state, actions
    )

    env, params = gymnax.make(env_id)
    reset_key, key = jax.random.split(jax.random.key(3))
    expected, inner = env.reset_env(reset_key, params)
    np.testing.assert_array_equal(definition.observe(state), expected)
    step = jax.jit(env.step_env)
    for row, action in enumerate(actions):
        step_key, key = jax.random.split(key)
        expected, inner, *outcome, _ = step(step_key, inner, action, params)
        np.testing.assert_allclose(observation[row], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose((reward[row], terminated[row]), outcome, rtol=1e-5, atol=1e-5)
        assert env.is_truncated(inner, params) == (row + 1 >= definition.time_limit)
        if outcome[1]:
            break
    assert bool(outcome[1]) == (env_id != "Pendulum-v1")


def follow(definition: JaxEnv) -> Any:
    def step(state: Any, action: Any) -> tuple[Any, Any]:
        state, reward, terminated = definition.step(state, action)
        return state, (definition.observe(state), reward, terminated)

    return step


def test_a_stochastic_environment_uses_a_new_key_at_each_step() -> None:
    definition = make_gymnax("BernoulliBandit-misc")
    state = definition.reset(jax.random.key(0))
    _, (_, reward, _) = jax.lax.scan(follow(definition), state, jnp.zeros(100, int))
    assert 0 < reward.mean() < 1


@pytest.mark.parametrize("env_id", ["FourRooms-misc", "MetaMaze-misc"])
def test_dtypes_stay_the_same_even_if_gymnax_changes_them(env_id: str) -> None:
    wide = make(f"gymnax:{env_id}", [0, 1], 2)
    assert isinstance(wide, VectorizedJaxEnv)
    state, first = wide.reset()
    after, timestep = jax.jit(wide.step)(state, jnp.zeros((2, 2), int))
    assert jax.tree.map(jax.typeof, after) == jax.tree.map(jax.typeof, state)
    assert first.dtype == timestep.observation.dtype == timestep.reward.dtype == jnp.float32
    assert first.shape == (2, 2, *wide.spec.observation_shape)


def test_spaces() -> None:
    breakout = make_gymnax("Breakout-MinAtar").spec
    assert (breakout.observation_shape, breakout.is_image, breakout.actions) == ((10, 10, 4), False, DiscreteActions(3))
    assert make_gymnax("Reacher-misc").spec.actions == BoxActions((-1.0, -1.0), (1.0, 1.0))
    assert make_gymnax("Pendulum-v1").spec.actions == BoxActions((-2.0,), (2.0,))
    assert GymnaxEnv(Camera()).spec.is_image


def vectorized_stream(definition: JaxEnv, action: Any, count: int) -> Any:
    wide = VectorizedJaxEnv(definition, [0], 1)
    state, _ = wide.reset()
    play = jax.jit(lambda state: jax.lax.scan(lambda s, _: wide.step(s, action), state, length=count)[1])
    timesteps = play.lower(state).compile(QUICK_COMPILE)(state)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0, 0], timesteps)


def test_a_time_limit_truncates_and_does_not_terminate() -> None:
    stream = vectorized_stream(make_gymnax("Pendulum-v1"), jnp.zeros((1, 1, 1)), 402)
    np.testing.assert_array_equal(np.flatnonzero(stream.truncated), [199, 400])
    assert not stream.terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(stream.reward == 0), [200, 401])


def test_a_termination_at_the_time_limit_is_also_a_truncation() -> None:
    env, params = gymnax.make("CartPole-v1")
    stream = vectorized_stream(GymnaxEnv(env), jnp.ones((1, 1), int), 20)
    falls = int(np.flatnonzero(stream.terminated)[0]) + 1
    assert not stream.truncated.any()
    for limit, flags in ((falls, (True, True)), (falls - 1, (False, True))):
        stream = vectorized_stream(
            GymnaxEnv(env, params.replace(max_steps_in_episode=limit)), jnp.ones((1, 1), int), falls
        )
        end = min(limit, falls) - 1
        assert (stream.terminated[end], stream.truncated[end]) == flags
        assert not (stream.terminated | stream.truncated)[:end].any()


class Counter(environment.Environment):
    """Counts to three and terminates; has Gymnax's parameters with a time limit of two."""

    @property
    def default_params(self) -> Any:
        return environment.EnvParams(max_steps_in_episode=2)

    def reset_env(self, key: Any, params: Any) -> tuple[Any, Any]:
        return jnp.zeros(1), environment.EnvState(time=0)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any, dict]:
        state = state.replace(time=state.time + 1)
        return jnp.zeros(1) + state.time, state, 1, self.is_terminal(state, params), {}

    def is_terminated(self, state: Any, params: Any) -> Any:
        return state.time >= 3

    def action_space(self, params: Any) -> Any:
        return spaces.Discrete(2)

    def observation_space(self, params: Any) -> Any:
        return spaces.Box(0, 3, (1,))


class OldCounter(Counter):
    """Written for Gymnax before 1.0."""

    def is_terminal(self, state: Any, params: Any) -> Any:
        return self.is_terminated(state, params) | (state.time >= params.max_steps_in_episode)


class Camera(Counter):
    def observation_space(self, params: Any) -> Any:
        return spaces.Box(0, 255, (84, 84, 4), jnp.uint8)


class Unlimited(Counter):
    @property
    def default_params(self) -> Any:
        return ()


@pytest.mark.parametrize("env", [Counter(), OldCounter(), Unlimited()], ids=lambda env: env.name)
def test_a_custom_environment(env: Any) -> None:
    definition = GymnaxEnv(env)
    stream = vectorized_stream(definition, jnp.zeros((1, 1), int), 4)
    limited = not isinstance(env, Unlimited)
    assert definition.time_limit == (2 if limited else None)
    np.testing.assert_array_equal(stream.observation[:, 0], [1, 2, 0, 1] if limited else [1, 2, 3, 0])
    np.testing.assert_array_equal(stream.truncated, [False, limited, False, False])
    np.testing.assert_array_equal(stream.terminated, [False, False, not limited, False])


class OwnTruncation(Counter):
    def is_truncated(self, state: Any, params: Any) -> Any:
        return state.time >= 1


class DiscreteObservation(Counter):
    def observation_space(self, params: Any) -> Any:
        return spaces.Discrete(4)


class SeveralActions(Counter):
    def action_space(self, params: Any) -> Any:
        return spaces.Tuple([spaces.Discrete(2)])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (OwnTruncation(), "OwnTruncation overrides is_truncated"),
        (DiscreteObservation(), "observations must be a Box, not Discrete"),
        (SeveralActions(), "actions must be Discrete or a Box of floats, not Tuple"),
        (HostAdapter, "takes a gymnax Environment, not a type"),
    ],
)
def test_unsupported_environments_raise_a_one_line_error(env: Any, message: str) -> None:
    with pytest.raises(TrustaxError, match=message) as error:
        GymnaxEnv(env)
    assert "\n" not in str(error.value)


def test_gymnax_requires_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_of("gymnax:CartPole-v1") == "gymnax"
    assert engine_of("CartPole-v1") == "native"
    assert isinstance(make("gymnax:CartPole-v1", [0], 1, compiled=False), HostAdapter)
    for env_id, message in {
        "Breakout-MinAtar": "needs the prefix: gymnax:Breakout-MinAtar",
        "gymnax:Breakout-MinAtr": "did you mean Breakout-MinAtar",
        "gymnax:LunarLander-v3": "gymnax has no environment 'LunarLander-v3', but .*gymnasium can run it",
        "gymnax:FrozenLake-misc": "observations must be a Box, not Discrete",
    }.items():
        with pytest.raises(TrustaxError, match=message):
            make(env_id, [0], 1)
    monkeypatch.setitem(sys.modules, "gymnax", None)
    with pytest.raises(TrustaxError, match=r'gymnax is not installed: pip install "trustax\[gymnax\]"'):
        make("gymnax:CartPole-v1", [0], 1)


def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    def run(folder: Path, **options: Any) -> Any:
        settings = {"num_envs": 4, "horizon": 32, "total_timesteps": 256, "num_seeds": 2, "quiet": True}
        algorithm = tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(8,))
        return tx.train(algorithm, "gymnax:Breakout-MinAtar", run_dir=folder, **settings, **options)

    def copy(iteration: tx.Iteration) -> None:
        if iteration.number == 1:
            shutil.copytree(tmp_path / "whole", tmp_path / "halves")

    whole = run(tmp_path / "whole", checkpoint_seconds=0.0, callbacks=[copy])
    assert len(whole.records) == 2
    assert np.isfinite(whole.records[-1]["train/loss"]).all()
    assert whole.agent().spec.observation_size == 400
    assert len(read_records(tmp_path / "halves")) == 1
    halves = run(tmp_path / "halves", resume=True)
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(halves.state), strict=True):
        assert (one == other).all()
