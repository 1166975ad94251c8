"""The environments in JAX against Gymnasium's, and `VectorizedJaxEnv` with custom environments."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from trustax.envs import JaxEnv, VectorizedJaxEnv, make
from trustax.envs.jax.cartpole import CartPole, CartPoleState
from trustax.envs.jax.pendulum import Pendulum, PendulumState
from trustax.errors import TrustaxError
from trustax.types import DiscreteActions, EnvSpec


def oracle(env_id: str, state: Any, limit: int | None = None) -> gymnasium.Env:
    env = gymnasium.make(env_id, max_episode_steps=limit)
    env.reset(seed=0)
    env.unwrapped.state = np.asarray([float(leaf) for leaf in state])
    return env


def random_states(env_id: str, generator: np.random.Generator) -> Any:
    if env_id == "Pendulum-v1":
        return PendulumState(*generator.uniform([-20, -8], [20, 8], (300, 2)).astype(np.float32).T)
    high = [2.45, 3.0, 0.22, 3.0]
    return CartPoleState(*(generator.uniform(-1, 1, (300, 4)) * high).astype(np.float32).T)


def random_actions(env_id: str, count: int, generator: np.random.Generator) -> np.ndarray:
    if env_id == "Pendulum-v1":  # beyond the bounds too: the environment clips
        return generator.uniform(-3, 3, (count, 1)).astype(np.float32)
    return generator.integers(0, 2, count)


@pytest.mark.parametrize(("env_id", "definition"), [("Pendulum-v1", Pendulum()), ("CartPole-v1", CartPole())])
def test_each_step_matches_gymnasium(env_id: str, definition: JaxEnv) -> None:
    generator = np.random.default_rng(1)
    states, actions = random_states(env_id, generator), random_actions(env_id, 300, generator)
    new, reward, terminated = jax.vmap(definition.step)(states, jnp.asarray(actions))
    observation = jax.vmap(definition.observe)(new)
    env = oracle(env_id, jax.tree.map(lambda leaf: leaf[0], states)).unwrapped
    for index, state in enumerate(zip(*states, strict=True)):
        env.reset()
        env.state = np.asarray(state, np.float64)
        expected, expected_reward, expected_terminated, *_ = env.step(actions[index])
        np.testing.assert_allclose(observation[index], expected, rtol=1e-6, atol=3e-6)
        np.testing.assert_allclose(reward[index], expected_reward, rtol=1e-5, atol=1e-6)
        assert bool(terminated[index]) == expected_terminated
    assert env_id == "Pendulum-v1" or 0 < int(terminated.sum()) < 300


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_a_whole_episode_stays_close_to_gymnasium(env_id: str) -> None:
    environment = make(env_id, [1], 1)  # an episode that does not balance at the top, where errors grow fast
    state, _ = environment.reset()
    env = oracle(env_id, jax.tree.map(lambda leaf: leaf[0, 0], state.inner))
    actions = random_actions(env_id, 200, np.random.default_rng(0))
    _, timesteps = jax.lax.scan(environment.step, state, actions[:, None, None])
    for row in range(200):
        *expected, _ = env.step(actions[row])
        stepped = jax.tree.map(lambda leaf, row=row: leaf[row, 0, 0], timesteps)[:4]
        for ours, theirs in zip(stepped, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-3)
        if any(expected[2:]):
            break
    assert expected[2:] == ([False, True] if env_id == "Pendulum-v1" else [True, False])
    assert row == 199 or env_id == "CartPole-v1"


def test_a_pole_that_stays_up_is_truncated_after_500_steps() -> None:
    environment = make("CartPole-v1", [4], 1)

    def control(carry: Any, _: None) -> tuple[Any, Any]:
        state, observation = carry
        action = (observation @ jnp.array([0.1, 0.5, 10.0, 2.0]) > 0).astype(int)
        state, timestep = environment.step(state, action)
        return (state, timestep.observation), timestep

    _, timesteps = jax.lax.scan(control, environment.reset(), length=502)
    np.testing.assert_array_equal(np.flatnonzero(timesteps.truncated), [499])
    assert not timesteps.terminated.any()
    assert timesteps.reward.sum() == 501


def test_a_pole_that_falls_at_the_time_limit_is_terminated_and_truncated() -> None:
    def play(limit: int) -> tuple[int, list[bool], list[bool]]:
        environment = VectorizedJaxEnv(CartPole(time_limit=limit), [0], 1)
        state, _ = environment.reset()
        env = oracle("CartPole-v1", jax.tree.map(lambda leaf: leaf[0, 0], state.inner), limit)
        step = jax.jit(environment.step)
        for _ in range(limit):
            state, timestep = step(state, jnp.ones((1, 1), int))
            _, _, *expected, _ = env.step(1)
            flags = [bool(timestep.terminated[0, 0]), bool(timestep.truncated[0, 0])]
            if any(expected) or any(flags):
                break
        return int(state.elapsed[0, 0]), flags, expected

    length, flags, expected = play(500)
    assert flags == expected == [True, False]
    assert play(length) == (length, [True, True], [True, True])


class CountdownState(NamedTuple):
    left: Any
    board: Any
    key: Any


@dataclass(frozen=True)
class Countdown:
    """Ends after 2 to 4 steps, drawn at reset; has a state with leaves of several ranks."""

    spec: ClassVar[EnvSpec] = EnvSpec((2,), DiscreteActions(2))
    time_limit: int | None = None

    def reset(self, key: Any) -> CountdownState:
        left_key, key = jax.random.split(key)
        return CountdownState(jax.random.randint(left_key, (), 2, 5), jnp.zeros((2, 3)), key)

    def step(self, state: CountdownState, action: Any) -> tuple[CountdownState, Any, Any]:
        board = state.board.at[0, 0].add(action)
        new = CountdownState(state.left - 1, board, jax.random.fold_in(state.key, 0))
        return new, action, new.left == 0

    def observe(self, state: CountdownState) -> Any:
        return jnp.stack([state.left.astype(jnp.float32), state.board[0, 0]])


def test_a_custom_environment_is_vectorized() -> None:
    environment = VectorizedJaxEnv(Countdown(), [0, 1, 2], 4)
    state, first = environment.reset()
    assert all(leaf.shape[:2] == (3, 4) for leaf in jax.tree.leaves(state))
    final, steps = jax.lax.scan(environment.step, state, jnp.ones((40, 3, 4), int))
    assert jax.tree.map(jnp.shape, final) == jax.tree.map(jnp.shape, state)
    assert steps.reward.dtype == jnp.float32
    left = np.concatenate([np.asarray(first)[None], steps.observation])[..., 0]
    reset_row = left[:-1] == 0
    np.testing.assert_array_equal(steps.terminated, left[1:] == 0)
    np.testing.assert_array_equal(steps.reward, ~reset_row)
    assert not steps.truncated.any()
    # Later episodes start from new random numbers, different for each environment.
    assert set(left[1:][reset_row]) == {2.0, 3.0, 4.0}
    # The board is reset with the episode.
    np.testing.assert_array_equal(steps.observation[..., 1][reset_row], 0.0)
    np.testing.assert_array_equal(steps.observation[..., 1] > 0, ~reset_row)


def test_the_time_limit_is_that_of_the_environment() -> None:
    environment = VectorizedJaxEnv(Countdown(time_limit=1), [0], 2)
    state, _ = environment.reset()
    _, steps = jax.lax.scan(environment.step, state, jnp.ones((4, 1, 2), int))
    np.testing.assert_array_equal(steps.truncated[:, 0, 0], [True, False, True, False])
    assert not steps.terminated.any()


def test_starts_sampled_in_bulk_equal_starts_sampled_per_step() -> None:
    environment = VectorizedJaxEnv(Countdown(), [0, 1], 8)
    assert environment.resumable
    start, _ = environment.reset()
    actions = jnp.zeros((12, 2, 8), int)
    one_by_one, _ = jax.lax.scan(environment.step, start, actions)
    state, starts = environment.draw_starts(start, 12)
    at_once, _ = jax.lax.scan(lambda state, xs: environment.step(state, *xs), state, (actions, starts))
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_array_equal(_plain(a), _plain(b))
    assert {2, 3, 4} == set(np.ravel(starts.left).tolist())


def _plain(x: Any) -> Any:
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


class Sloppy(NamedTuple):
    """An environment with one configurable fault."""

    step_type: Any = jnp.int32
    observation: tuple[int, ...] = (1,)
    reward: tuple[int, ...] = ()
    spec: EnvSpec = EnvSpec((1,), DiscreteActions(2))
    time_limit: int | None = 5
    terminated: tuple[int, ...] = ()
    extra: tuple[Any, ...] = ()
    quits: bool = False

    def reset(self, key: Any) -> Any:
        if self.quits:
            sys.exit(0)
        return {"left": jnp.array(3)}

    def step(self, state: Any, action: Any) -> Any:
        left = (state["left"] - 1).astype(self.step_type)
        terminated = jnp.full(self.terminated, left == 0).astype(int)
        return {"left": left}, jnp.ones(self.reward), terminated, *self.extra

    def observe(self, state: Any) -> Any:
        return jnp.full(self.observation, state["left"])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            {"step_type": jnp.float32},
            "with the shapes and dtypes of the state from reset: state['left'] int32 () from reset, ",
        ),
        ({"observation": (2,)}, "Sloppy.observe returns the shape (2,), but its spec declares (1,)"),
        ({"reward": (1,)}, "Sloppy.step must return a scalar reward, not an array of shape (1,)"),
        ({"terminated": (1,)}, "Sloppy.step must return a scalar terminated, not an array of shape (1,)"),
        ({"extra": (False, {})}, "Sloppy.step must return the 3 values state, reward and terminated, not 5 values"),
        ({"quits": True}, "Sloppy raised SystemExit: 0"),
        ({"time_limit": 0}, "Sloppy.time_limit must be a whole number of at least 1, or None for no limit, not 0"),
        (
            {"time_limit": 20.5},
            "Sloppy.time_limit must be a whole number of at least 1, or None for no limit, not 20.5",
        ),
        ({"spec": None}, "Sloppy.spec must be a trustax.EnvSpec, not None; it declares observations and actions"),
    ],
)
def test_inconsistent_functions_raise_a_one_line_error(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(TrustaxError, match=re.escape(message)):
        make(Sloppy(**fault), seeds=[0], num_envs=2).reset()


def test_integer_flags_and_observations_are_converted() -> None:
    settings = {"num_envs": 2, "horizon": 8, "total_timesteps": 32, "normalize_observations": False, "quiet": True}
    result = tx.train(tx.PPO(num_minibatches=2), Sloppy(), **settings)
    assert result.records[-1]["rollout/ep_len_mean"] == [3.0]


class Bandit:
    """Two arms, of which the second pays; there is no state."""

    spec: ClassVar[EnvSpec] = EnvSpec((1,), DiscreteActions(2))
    time_limit: ClassVar[int | None] = None

    def reset(self, key: Any) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], action: Any) -> tuple[tuple[()], Any, Any]:
        return (), 1.0 * action, True

    def observe(self, state: tuple[()]) -> Any:
        return jnp.ones(1)

    def succeeded(self, state: tuple[()]) -> Any:
        return True


def test_an_environment_may_have_no_state(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"num_envs": 2, "horizon": 8, "num_seeds": 2, "quiet": True, "run_dir": tmp_path / "run"}
    for steps in (32, 64):
        result = tx.train(tx.PPO(num_minibatches=2), Bandit(), total_timesteps=steps, resume=True, **settings)
    assert result.records[-1]["rollout/ep_len_mean"] == [1.0, 1.0]
    assert result.records[-1]["rollout/success_rate"] == [1.0, 1.0]
    assert set(tx.evaluate(result.agent(), Bandit(), deterministic=False, num_episodes=20).returns) == {0.0, 1.0}
