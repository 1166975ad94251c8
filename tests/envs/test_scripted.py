"""The same script of three episodes, as a custom environment of every engine, must return the same stream.

The script is written once, as a table, and acted three times: as a `JaxEnv`, as a Gymnasium environment, as a
Gymnax environment. EnvPool runs only what it was built with; `test_contract.py` holds it to the same contract.
"""

import functools
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.runtime.test_collect import RAW, policies_of
from trustax.envs import CompiledEnvironment, HostEnvironment, make
from trustax.envs.gymnax import GymnaxEnv
from trustax.ops.advantages import gae
from trustax.ops.transforms import over_seeds
from trustax.runtime.collect import HostCollector, collect
from trustax.runtime.collector_state import CollectorState
from trustax.types import DiscreteActions, EnvSpec, TimeStep

pytest.importorskip("gymnax")
from gymnax.environments import environment, spaces

FIRST = (0.0, 0.0)
LIMIT = 3
SCRIPT = (
    # observation, reward, terminated, truncated; the first action of an episode chooses one of these:
    [((1.0, 1.0), 0.5, False, False), ((1.0, 2.0), -1.0, True, False)],
    [((2.0, 1.0), 2.0, False, False), ((2.0, 2.0), 0.0, False, False), ((2.0, 3.0), 4.0, False, True)],
    [((3.0, 1.0), 1.0, False, False), ((3.0, 2.0), 8.0, False, False), ((3.0, 3.0), -3.0, True, True)],
)
SEEDS, NUM_ENVS, TIME = (4, 1), 3, 40


def table(column: int, fill: Any) -> np.ndarray:
    """One column of the script, `plan time`; rows beyond the end of an episode are never used."""
    return np.array([[row[column] for row in plan] + [fill] * (LIMIT - len(plan)) for plan in SCRIPT])


OBSERVATION = np.stack([np.zeros((3, 2)), *np.swapaxes(table(0, (np.nan, np.nan)), 0, 1)], axis=1).astype(np.float32)
REWARD = table(1, np.nan).astype(np.float32)
TERMINATED = table(2, True)


class ScriptState(NamedTuple):
    plan: Any
    time: Any


class ScriptJaxEnv:
    spec: ClassVar[EnvSpec] = EnvSpec((2,), DiscreteActions(3))
    time_limit: ClassVar[int | None] = LIMIT

    def reset(self, key: Any) -> ScriptState:
        return ScriptState(jnp.int32(0), jnp.int32(0))

    def step(self, state: ScriptState, action: Any) -> tuple[ScriptState, Any, Any]:
        plan = jnp.where(state.time == 0, action, state.plan)
        reward, terminated = (jnp.asarray(column)[plan, state.time] for column in (REWARD, TERMINATED))
        return ScriptState(plan, state.time + 1), reward, terminated

    def observe(self, state: ScriptState) -> Any:
        return jnp.asarray(OBSERVATION)[state.plan, state.time]


class ScriptGymnasium(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.rows: Any = None
        return np.array(FIRST, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.rows = iter(SCRIPT[action]) if self.rows is None else self.rows
        observation, *rest = next(self.rows)
        return np.array(observation, np.float32), *rest, {}


class ScriptGymnax(environment.Environment):
    @property
    def default_params(self) -> Any:
        return environment.EnvParams(max_steps_in_episode=LIMIT)

    def reset_env(self, key: Any, params: Any) -> tuple[Any, Any]:
        return jnp.array(FIRST), ScriptState(0, 0)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any, dict]:
        plan = jax.lax.select(state.time == 0, action, state.plan)
        observation, reward, terminated = (jnp.asarray(column) for column in (OBSERVATION, REWARD, TERMINATED))
        now = ScriptState(plan, state.time + 1)
        return observation[plan, now.time], now, reward[plan, state.time], terminated[plan, state.time], {}

    def action_space(self, params: Any) -> Any:
        return spaces.Discrete(3)

    def observation_space(self, params: Any) -> Any:
        return spaces.Box(0, 3, (2,))


FORMS = {
    "definition, compiled": (ScriptJaxEnv(), True),
    "definition, stepped": (ScriptJaxEnv(), False),
    "gymnasium": (ScriptGymnasium, False),
    "gymnax, compiled": (GymnaxEnv(ScriptGymnax()), True),
    "gymnax, stepped": (GymnaxEnv(ScriptGymnax()), False),
}
each_form = pytest.mark.parametrize("form", FORMS)


def made(form: str) -> CompiledEnvironment | HostEnvironment:
    made = make(FORMS[form][0], SEEDS, NUM_ENVS, FORMS[form][1])
    assert isinstance(made, CompiledEnvironment) == FORMS[form][1]
    return made


def expected(plans: list[int]) -> list[Any]:
    """Each episode, then the row that resets."""
    rows = [row for plan in plans for row in (*SCRIPT[plan], (FIRST, 0.0, False, False))]
    return [np.array(column, np.float32 if index < 2 else bool) for index, column in enumerate(zip(*rows, strict=True))]


@each_form
def test_every_engine_plays_the_script(form: str) -> None:
    orders = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]  # of the environments; all take the same time
    actions = [[plan for plan in order for _ in range(len(SCRIPT[plan]) + 1)] for order in orders]
    wide = np.broadcast_to(np.array(actions, np.int32).T[:, None], (11, len(SEEDS), NUM_ENVS))
    first, steps = stream(made(form), wide)
    np.testing.assert_array_equal(first, np.zeros((len(SEEDS), NUM_ENVS, 2)))
    for env, order in enumerate(orders):
        for seed in range(len(SEEDS)):
            for ours, theirs in zip(steps[:4], expected(order), strict=True):
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours[:, seed, env], theirs)
    assert steps.raw_reward is steps.game_over is steps.success is None


def stream(wide: CompiledEnvironment | HostEnvironment, actions: np.ndarray) -> tuple[Any, TimeStep]:
    if isinstance(wide, CompiledEnvironment):
        state, first = wide.reset()
        _, steps = jax.jit(lambda *start: jax.lax.scan(wide.step, *start))(state, actions)
        return first, jax.tree.map(np.asarray, steps)
    first = wide.reset()
    return first, jax.tree.map(lambda *rows: np.stack(rows), *map(wide.step, actions))


@functools.cache
def collected(form: str) -> Any:
    """The rollouts of all seeds and their finished episodes, from the collector for this form."""
    wide = made(form)
    policies = policies_of(SEEDS, wide.spec)
    keys = jax.random.split(jax.random.key(1), (len(SEEDS), TIME))
    begin = jax.jit(over_seeds(lambda seen: CollectorState.init(seen, RAW, wide.spec)))
    if isinstance(wide, CompiledEnvironment):
        state, first = wide.reset()
        go = jax.jit(functools.partial(collect, wide, preprocessing=RAW))
        _, _, rollout, episodes = go(policies, begin(first), state, keys)
    else:
        observer = begin(jnp.asarray(wide.reset()))
        _, _, rollout, episodes = HostCollector(wide, RAW)(policies, observer, None, keys)
    return jax.tree.map(np.asarray, (rollout, episodes))


@each_form
def test_every_collector_makes_the_same_rollout(form: str) -> None:
    reference, ours = collected("definition, compiled"), collected(form)
    assert jax.tree.structure(ours) == jax.tree.structure(reference)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(reference), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@each_form
def test_rows_after_the_end_of_an_episode_have_no_weight(form: str) -> None:
    rollout, episodes = collected(form)
    ended = rollout.terminated | rollout.truncated
    np.testing.assert_array_equal(rollout.weight[:, 1:] == 0, ended[:, :-1])
    assert (rollout.weight[:, 0] == 1).all()
    np.testing.assert_array_equal(episodes.ended, ended)
    for flags in ((True, False), (False, True), (True, True)):
        assert ((rollout.terminated == flags[0]) & (rollout.truncated == flags[1]) & (rollout.weight == 1)).any()
    # The observation after the last row is the last of its episode; the next one is the first of the next episode.
    last = rollout.observation[:, 1:][ended]
    assert {tuple(row) for row in last} == {plan[-1][0] for plan in SCRIPT}
    assert not rollout.observation[:, 2:][ended[:, :-1]].any()


@each_form
def test_only_a_truncation_without_termination_bootstraps(form: str) -> None:
    rollout, _ = collected(form)
    discount = 0.5

    def advantages(value: Any) -> Any:
        one_seed = functools.partial(gae, discount=discount, gae_lambda=0.9)
        return np.asarray(jax.vmap(one_seed)(rollout.reward, value, rollout.terminated, rollout.truncated))

    # A value of 1 at the last observation of an episode and 0 elsewhere shows where it is used for bootstrapping.
    ended = rollout.terminated | rollout.truncated
    at_ends = np.concatenate([np.zeros_like(ended[:, :1]), ended], axis=1).astype(np.float32)
    effect = advantages(at_ends) - advantages(np.zeros_like(at_ends))
    bootstrapped = rollout.truncated & ~rollout.terminated
    assert bootstrapped.any()
    np.testing.assert_allclose(effect[ended], discount * bootstrapped[ended], atol=1e-6)
