"""The two MiniGrid tasks in JAX against the `minigrid` package: every step, and the distribution of layouts."""

import functools
from collections import deque
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2_contingency

from trustax.envs import CompiledEnvironment, VectorizedJaxEnv, engine_of, make
from trustax.envs.jax.gridworld import (
    BOX,
    CLOSED,
    DONE,
    DOOR,
    EMPTY,
    FORWARD,
    KEY,
    LEFT,
    LOCKED,
    OPEN,
    PICKUP,
    RIGHT,
    TOGGLE,
    GridState,
    heading,
    parts,
    tile,
)
from trustax.envs.jax.unlock import DOOR_X, Unlock, UnlockPickup
from trustax.envs.minigrid import COLORS, SymbolicView
from trustax.types import DiscreteActions

pytest.importorskip("minigrid")

TASKS = {"MiniGrid-Unlock-v0": Unlock(), "MiniGrid-UnlockPickup-v0": UnlockPickup()}
each_task = pytest.mark.parametrize("env_id", TASKS)


def state_of(env: Any) -> GridState:
    """The state of an environment of the package, as a `GridState`."""
    grid = tile(*np.moveaxis(env.grid.encode().astype(np.int32), -1, 0))
    hand = tile(*env.carrying.encode()) if env.carrying else EMPTY
    mission = next((index for index, color in enumerate(COLORS) if color in env.mission), 0)
    scalars = (*env.agent_pos, env.agent_dir, hand, mission, env.step_count)
    return GridState(grid, *(np.int32(scalar) for scalar in scalars))


def towards(state: GridState, target: int, act: int) -> int | None:
    """The first action of the shortest path to a tile, or `act` if the agent faces it; None if there is no path."""
    kinds, _, conditions = parts(state.grid)
    free = (kinds == EMPTY) | ((kinds == DOOR) & (conditions == OPEN))
    start = (int(state.x), int(state.y), int(state.direction))
    queue, seen = deque([(start, None)]), {start}
    while queue:
        (x, y, direction), first = queue.popleft()
        dx, dy = heading(direction)
        if kinds[x + dx, y + dy] == target:
            return act if first is None else first
        moves = [(LEFT, (x, y, (direction - 1) % 4)), (RIGHT, (x, y, (direction + 1) % 4))]
        if free[x + dx, y + dy]:
            moves.append((FORWARD, (x + dx, y + dy, direction)))
        for action, pose in moves:
            if pose not in seen:
                seen.add(pose)
                queue.append((pose, action if first is None else first))
    return None


def sensible_action(state: GridState) -> int | None:
    """The action toward the goal: first the key, then the door, then the box, even if the hand is not empty."""
    kinds, _, conditions = parts(state.grid)
    condition = conditions[kinds == DOOR].item()
    if condition == LOCKED and state.hand == EMPTY:
        return towards(state, KEY, PICKUP)
    if condition != OPEN:
        return towards(state, DOOR, TOGGLE)
    return towards(state, BOX, PICKUP)


@functools.cache
def played(env_id: str) -> tuple[GridState, np.ndarray, GridState, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """10 games of 300 steps: the state before, the action, the state after, and the results of the package.

    Half of the actions make for the goal and half are random, so all that can happen does.
    """
    rows = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        env = SymbolicView(gymnasium.make(env_id, disable_env_checker=True))
        env.reset(seed=seed)
        before = state_of(env.unwrapped)
        for _ in range(300):
            action = sensible_action(before) if generator.uniform() < 0.5 else None
            action = int(generator.integers(7)) if action is None else action
            observation, reward, terminated, truncated, info = env.step(action)
            after = state_of(env.unwrapped)
            rows.append((before, action, after, observation, reward, terminated, info["is_success"]))
            if terminated or truncated:
                env.reset()
            before = state_of(env.unwrapped)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


@each_task
def test_each_step_matches_minigrid(env_id: str) -> None:
    before, action, after, observation, reward, terminated, success = played(env_id)
    task = TASKS[env_id]

    @jax.jit
    @jax.vmap
    def step(state: GridState, action: Any) -> Any:
        new, reward, terminated = task.step(state, action)
        return new, task.observe(new), reward, terminated, task.succeeded(new)

    ours = step(before, action)
    for field, one, other in zip(GridState._fields, ours[0], after, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=field)
        assert one.dtype == jnp.int32
    np.testing.assert_array_equal(ours[1], observation)
    np.testing.assert_allclose(ours[2], reward, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours[3], terminated)
    np.testing.assert_array_equal(ours[4], success)


@each_task
def test_the_games_cover_all_events(env_id: str) -> None:
    """Otherwise the test above would prove little."""
    before, action, after, *_, success = played(env_id)
    took, held = parts(after.hand)[0], parts(before.hand)[0]
    was, became = (parts(state.grid[:, DOOR_X].max(axis=1))[2] for state in (before, after))
    events = {
        "the key is taken": (held == EMPTY) & (took == KEY),
        "the key is dropped": (held == KEY) & (took == EMPTY),
        "a full hand takes nothing": (held == KEY) & (action == PICKUP),
        "the door is unlocked": (was == LOCKED) & (became == OPEN),
        "the lock resists": (was == LOCKED) & (became == LOCKED) & (action == TOGGLE),
        "a wall or an object stops the agent": (action == FORWARD) & (before.x == after.x) & (before.y == after.y),
        "the goal is reached": success,
    }
    if env_id == "MiniGrid-UnlockPickup-v0":
        boxes_before, boxes_after = (np.sum(parts(state.grid)[0] == BOX, axis=(1, 2)) for state in (before, after))
        events |= {
            "the open door is closed": (was == OPEN) & (became == CLOSED),
            "the closed door is opened": (was == CLOSED) & (became == OPEN),
            "the agent stands in the door": after.x == DOOR_X,
            "the agent is in the other room": after.x > DOOR_X,
            "the box is taken": (boxes_before > boxes_after) & (took == BOX),
            "the box is opened and gone": (boxes_before > boxes_after) & (took != BOX),
            "a full hand does not take the box": (held == KEY) & (action == PICKUP) & (before.x > DOOR_X),
        }
    counts = {event: int(np.sum(happened)) for event, happened in events.items()}
    assert min(counts.values()) >= 3, counts


@each_task
def test_success_is_reported_once_per_episode(env_id: str) -> None:
    """Three games that succeed, and one in which the agent does nothing."""
    before, action, *_, reward, _, success = played(env_id)
    ends = np.flatnonzero(success)[:3]
    starts = ends - before.steps[ends]
    rows = np.arange(290)[:, None]
    actions = np.where(rows <= ends - starts, action.take(rows + starts, mode="clip"), DONE)
    actions = np.concatenate([actions, np.full_like(rows, DONE)], axis=1)

    environment = make(env_id, [0], 4)
    state, _ = environment.reset()
    inner = jax.tree.map(lambda leaf: leaf[None, [*starts, starts[0]]], before)
    state = eqx.tree_at(lambda state: state.inner, state, inner)
    _, steps = jax.jit(lambda *start: jax.lax.scan(environment.step, *start))(state, actions[:, None])

    np.testing.assert_array_equal(steps.success[:, 0, :3], rows == ends - starts)
    np.testing.assert_array_equal(steps.terminated, steps.success)
    np.testing.assert_allclose(steps.reward[ends - starts, 0, np.arange(3)], reward[ends], rtol=1e-6)
    np.testing.assert_array_equal(steps.truncated[:, 0, 3], rows[:, 0] == 287)
    assert not steps.success[:, 0, 3].any()
    unmoved = steps.observation[:288, 0, 3]
    np.testing.assert_array_equal(unmoved, np.broadcast_to(unmoved[0], unmoved.shape))
    assert (steps.observation[288, 0, 3] != unmoved[0]).any()


def test_success_at_the_time_limit_is_still_success() -> None:
    before, action, *_, success = played("MiniGrid-Unlock-v0")
    end = np.flatnonzero(success)[0]
    last = jax.tree.map(lambda leaf: jnp.asarray(leaf[end])[None, None], before)
    environment = VectorizedJaxEnv(Unlock(time_limit=int(before.steps[end]) + 1), [0], 1)
    state, _ = environment.reset()
    state = eqx.tree_at(lambda state: (state.inner, state.elapsed), state, (last, last.steps))
    _, timestep = jax.jit(environment.step)(state, jnp.asarray(action[end])[None, None])
    assert timestep.terminated.all()
    assert timestep.truncated.all()
    assert timestep.success.all()
    np.testing.assert_allclose(timestep.reward, 0.1, rtol=1e-6)


def layout(state: GridState) -> dict[str, np.ndarray]:
    """The random parts of a layout, one number per episode; the state has an axis of episodes."""
    numbers = {
        "direction": state.direction,
        "agent": 100 * state.x + state.y,
        "stance": 1000 * state.direction + 100 * state.x + state.y,
        "mission": state.mission,
    }
    kinds, colors, _ = parts(state.grid)
    for name, kind in {"door": DOOR, "key": KEY, "box": BOX}.items():
        episodes, x, y = np.nonzero(kinds == kind)
        if len(episodes):
            np.testing.assert_array_equal(episodes, np.arange(len(kinds)))
            numbers |= {name: 100 * x + y, f"{name} color": colors[episodes, x, y]}
    key_x, key_y = np.divmod(numbers["key"], 100)
    return numbers | {"key's distance": abs(key_x - state.x) + abs(key_y - state.y)}


@each_task
def test_layouts_have_minigrids_distribution(env_id: str) -> None:
    env = gymnasium.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=7)
    theirs = []
    for _ in range(500):
        env.reset()
        theirs.append(state_of(env))
    expected = layout(jax.tree.map(lambda *leaves: np.stack(leaves), *theirs))
    ours = jax.jit(jax.vmap(TASKS[env_id].reset))(jax.random.split(jax.random.key(3), 2000))
    drawn = layout(jax.tree.map(np.asarray, ours))
    assert drawn.keys() == expected.keys()
    for name, numbers in drawn.items():
        assert set(expected[name]) <= set(numbers), name
        values = np.unique(numbers)
        if len(values) > 1:
            table = [[np.sum(sample[name] == value) for value in values] for sample in (drawn, expected)]
            assert chi2_contingency(np.array(table)).pvalue > 1e-3, name
    places = {100 * x + y for x in range(1, 5) for y in range(1, 5)}
    assert set(drawn["agent"]) == set(drawn["key"]) == places
    assert set(drawn["door"]) == {501, 502, 503, 504}
    np.testing.assert_array_equal(drawn["key color"], drawn["door color"])
    if "box" in drawn:
        waiting = {803, 703, 903, 802, 804}
        assert set(drawn["box"]) == {100 * x + y for x in range(6, 10) for y in range(1, 5)} - waiting
        np.testing.assert_array_equal(drawn["mission"], drawn["box color"])


@each_task
def test_the_agent_never_starts_facing_an_object(env_id: str) -> None:
    state = jax.jit(jax.vmap(TASKS[env_id].reset))(jax.random.split(jax.random.key(0), 2000))
    state = jax.tree.map(np.asarray, state)
    dx, dy = heading(state.direction)
    episodes = np.arange(2000)
    assert (state.grid[episodes, state.x, state.y] == EMPTY).all()
    ahead = parts(state.grid[episodes, state.x + dx, state.y + dy])[0]
    assert set(ahead) == {EMPTY, 2}
    assert (state.hand == EMPTY).all()
    assert (state.steps == 0).all()


@each_task
def test_the_id_without_prefix_is_native_and_compiled(env_id: str) -> None:
    assert engine_of(env_id) == "native"
    environment = make(env_id, seeds=[0, 1], num_envs=3)
    assert isinstance(environment, CompiledEnvironment)
    assert environment.resumable
    assert environment.spec.actions == DiscreteActions(7)
    _, first = environment.reset()
    assert first.shape == (2, 3, *environment.spec.observation_shape)
    assert first.dtype == jnp.float32
    assert len(np.unique(first.reshape(6, -1), axis=0)) > 3
    assert TASKS[env_id].time_limit == gymnasium.make(env_id, disable_env_checker=True).unwrapped.max_steps
