"""Rollouts, compiled and from Python, against a replay of the raw steps in NumPy and float64."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.ops.test_running_statistics import RunningMeanStd
from trustax.envs import HostAdapter, VectorizedJaxEnv
from trustax.networks import Architecture, Policy
from trustax.ops.transforms import over_seeds
from trustax.runtime.collect import HostCollector, collect
from trustax.runtime.collector_state import CollectorState, Preprocessing, observe
from trustax.types import BoxActions, DiscreteActions, EnvSpec, TimeStep

TIME, ENVS, LIMIT = 24, 3, 5
RAW = Preprocessing(normalize_observations=False, normalize_rewards=False)


class WalkState(NamedTuple):
    time: Any
    length: Any
    position: Any


class Walk:
    """Half a step left or right. Ends after a drawn number of steps, or by the time limit, or by both at once."""

    spec: ClassVar[EnvSpec] = EnvSpec((2,), DiscreteActions(2))
    time_limit: ClassVar[int | None] = LIMIT

    def reset(self, key: Any) -> WalkState:
        return WalkState(jnp.zeros((), jnp.int32), jax.random.randint(key, (), 1, 9), jnp.zeros(()))

    def step(self, state: WalkState, action: Any) -> tuple[WalkState, Any, Any]:
        position = state.position + action - 0.5
        new = WalkState(state.time + 1, state.length, position)
        return new, 3 * position + 1, new.time >= new.length

    def observe(self, state: WalkState) -> Any:
        return jnp.stack([state.time.astype(jnp.float32), state.position])


class Reach(Walk):
    """The same with a continuous action, of which the environment takes at most half."""

    spec: ClassVar[EnvSpec] = EnvSpec((2,), BoxActions((-0.5,), (0.5,)))

    def step(self, state: WalkState, action: Any) -> tuple[WalkState, Any, Any]:
        return super().step(state, action[0] + 0.5)


class Recorded(HostAdapter):
    """Remembers what it was given and what it returned."""

    def reset(self, start: int = 0) -> np.ndarray:
        self.actions: list[np.ndarray] = []
        self.first, self.steps = super().reset(start), []
        return self.first

    def step(self, action: np.ndarray) -> TimeStep:
        self.actions.append(action)
        self.steps.append(super().step(action))
        return self.steps[-1]

    @property
    def raw(self) -> TimeStep:
        """Everything returned, `time seed env`."""
        return jax.tree.map(lambda *rows: np.stack(rows), *self.steps)


def policies_of(seeds: Sequence[int], spec: EnvSpec) -> Policy:
    architecture = Architecture(spec) if spec.is_image else Architecture(spec, (8,))
    size = jax.eval_shape(architecture.init, jax.random.key(0)).parameters.size
    rows = [np.random.default_rng(seed).normal(size=size).astype(np.float32) for seed in seeds]
    return jax.vmap(lambda row: Policy(row, architecture))(jnp.asarray(np.stack(rows)))


def keys_of(seeds: Sequence[int], iteration: int) -> jax.Array:
    return jax.vmap(lambda seed: jax.random.split(jax.random.fold_in(jax.random.key(seed), iteration), TIME))(
        np.asarray(seeds, np.uint32)
    )


def observers(observation: Any, preprocessing: Preprocessing) -> CollectorState:
    begin = over_seeds(lambda seen: CollectorState.init(seen, preprocessing, Walk.spec))
    return jax.jit(begin)(jnp.asarray(observation))


@lru_cache
def compiled(seeds: Sequence[int], preprocessing: Preprocessing, definition: Any = Walk) -> Any:
    """Rollouts and finished episodes of two iterations, and the observer at the end."""
    environment = VectorizedJaxEnv(definition(), seeds, ENVS)
    state, observation = environment.reset()
    observer, collected = observers(observation, preprocessing), []
    go = jax.jit(partial(collect, environment, preprocessing=preprocessing))
    for iteration in range(2):
        policies, keys = policies_of(seeds, environment.spec), keys_of(seeds, iteration)
        observer, state, *rest = go(policies, observer, state, keys)
        collected.append(rest)
    return collected, observer


@lru_cache
def hosted(seeds: Sequence[int], preprocessing: Preprocessing, definition: Any = Walk) -> Any:
    environment = Recorded(VectorizedJaxEnv(definition(), seeds, ENVS))
    observer, collected = observers(environment.reset(), preprocessing), []
    collector = HostCollector(environment, preprocessing)
    for iteration in range(2):
        policies, keys = policies_of(seeds, environment.spec), keys_of(seeds, iteration)
        observer, _, *rest = collector(policies, observer, None, keys)
        collected.append(rest)
    return collected, observer, environment


def assert_same(first: Any, second: Any, rtol: float = 0.0) -> None:
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def joined(collected: Any) -> tuple[Any, Any]:
    """Two rollouts after one another as one, without the observation that both have."""
    (first, first_episodes), (second, second_episodes) = collected
    rollout = jax.tree.map(lambda a, b: np.concatenate([a[:, :TIME], b], axis=1), first, second)
    return rollout, jax.tree.map(lambda a, b: np.concatenate([a, b], axis=1), first_episodes, second_episodes)


@pytest.mark.parametrize(
    ("seeds", "preprocessing"), [((7,), Preprocessing()), ((2, 7), Preprocessing()), ((2, 7), RAW)]
)
def test_compiled_and_hosted_rollouts_are_the_same(seeds: tuple[int, ...], preprocessing: Preprocessing) -> None:
    collected, observer = compiled(seeds, preprocessing)
    from_host, host_observer, _ = hosted(seeds, preprocessing)
    # Several steps compiled as one may be rounded differently in the last bit.
    assert_same(collected, from_host, rtol=1e-6)
    assert_same(observer, host_observer, rtol=1e-6)
    assert collected[0][0].reward.shape == (len(seeds), TIME, ENVS)


def test_continuous_actions_are_clipped_for_the_environment_only() -> None:
    collected, _ = compiled((7,), RAW, definition=Reach)
    from_host, _, environment = hosted((7,), RAW, definition=Reach)
    assert_same(collected, from_host, rtol=1e-6)  # normal numbers drawn in bulk may differ in the last bit
    rollout, _ = joined(collected)
    assert rollout.action.shape == (1, 2 * TIME, ENVS, 1)
    assert np.abs(rollout.action).max() > 0.5
    np.testing.assert_allclose(np.swapaxes(environment.actions, 0, 1), np.clip(rollout.action, -0.5, 0.5), atol=1e-6)


@pytest.mark.parametrize("collected_by", [compiled, hosted])
def test_a_seed_has_the_same_rollout_alone_and_among_others(collected_by: Any) -> None:
    alone, *_ = collected_by((7,), Preprocessing())
    among, *_ = collected_by((2, 7), Preprocessing())
    # A single seed is compiled without `vmap`, which rounds a few sums differently.
    assert_same(alone, jax.tree.map(lambda x: x[1:], among), rtol=1e-6)
    assert not np.array_equal(among[0][0].observation[0], among[0][0].observation[1])


def test_weight_is_zero_exactly_on_the_rows_after_an_ending() -> None:
    rollout, episodes = joined(compiled((2, 7), Preprocessing())[0])
    ended = rollout.terminated | rollout.truncated
    np.testing.assert_array_equal(ended, episodes.ended)
    np.testing.assert_array_equal(rollout.weight[:, 1:], 1.0 - ended[:, :-1])
    np.testing.assert_array_equal(rollout.weight[:, 0], np.ones((2, ENVS)))
    np.testing.assert_array_equal(rollout.reward[rollout.weight == 0], 0.0)


def test_observations_continue_between_rollouts() -> None:
    collected, observer = compiled((2, 7), RAW)
    np.testing.assert_array_equal(collected[0][0].observation[:, -1], collected[1][0].observation[:, 0])
    np.testing.assert_array_equal(collected[1][0].observation[:, -1], observer.observation)
    rollout, _ = joined(collected)
    moved = rollout.observation[:, :-1] + np.stack([np.ones_like(rollout.reward), rollout.action - 0.5], axis=-1)
    follows = np.where(rollout.weight[..., None] == 1, moved, 0.0)
    np.testing.assert_array_equal(rollout.observation[:, 1:], follows)
    position = rollout.observation[:, 1:, :, 1]
    np.testing.assert_array_equal(rollout.reward, np.where(rollout.weight == 1, 3 * position + 1, 0.0))


def test_terminations_and_truncations_are_distinguished() -> None:
    rollout, _ = joined(compiled((2, 7), RAW)[0])
    time = rollout.observation[:, 1:, :, 0]
    np.testing.assert_array_equal(rollout.truncated, (time == LIMIT) & (rollout.weight == 1))
    assert (rollout.terminated & ~rollout.truncated).any()
    assert (rollout.truncated & ~rollout.terminated).any()


def test_without_bootstrap_truncations_are_terminations_and_nothing_else_changes() -> None:
    right, right_episodes = joined(compiled((7,), Preprocessing())[0])
    paper, paper_episodes = joined(compiled((7,), Preprocessing(bootstrap_truncation=False))[0])
    assert not np.array_equal(right.terminated, paper.terminated)
    np.testing.assert_array_equal(paper.terminated, right.terminated | right.truncated)
    for name in ("observation", "action", "reward", "weight"):
        np.testing.assert_allclose(getattr(paper, name), getattr(right, name), rtol=1e-6, atol=1e-6)
    assert_same(paper_episodes, right_episodes, rtol=1e-6)


def test_returns_and_lengths_are_counted_without_normalization() -> None:
    collected, _, environment = hosted((2, 7), Preprocessing())
    _, episodes = joined(collected)
    raw = environment.raw
    for seed, env in np.ndindex(2, ENVS):
        total, length, resetting, finished = 0.0, 0, False, 0
        for time in range(2 * TIME):
            total, length = total + raw.reward[time, seed, env], length + (not resetting)
            resetting = raw.terminated[time, seed, env] or raw.truncated[time, seed, env]
            assert episodes.ended[seed, time, env] == resetting
            if resetting:
                np.testing.assert_allclose(episodes.episode_return[seed, time, env], total, rtol=1e-6)
                assert episodes.length[seed, time, env] == length <= LIMIT
                total, length, finished = 0.0, 0, finished + 1
        assert finished > 5


def test_normalization_matches_stable_baselines_without_reset_rows_in_the_returns() -> None:
    collected, observer, environment = hosted((2, 7), Preprocessing())
    rollout, _ = joined(collected)
    for seed in range(2):
        raw = jax.tree.map(lambda array, seed=seed: array[:, seed], environment.raw)
        seen, returns = RunningMeanStd((2,)), RunningMeanStd(())
        accumulated, resetting = np.zeros(ENVS), np.zeros(ENVS, bool)
        for time, observation in enumerate([environment.first[seed], *raw.observation]):
            seen.update(observation.astype(np.float64))
            expected = np.clip((observation - seen.mean) / np.sqrt(seen.var + 1e-8), -10, 10)
            np.testing.assert_allclose(rollout.observation[seed, time], expected, rtol=1e-4, atol=1e-5)
            if time == 2 * TIME:
                break
            accumulated = 0.99 * accumulated + raw.reward[time]
            returns.update(accumulated[~resetting])
            expected = np.clip(raw.reward[time] / np.sqrt(returns.var + 1e-8), -10, 10)
            np.testing.assert_allclose(rollout.reward[seed, time], expected, rtol=1e-4, atol=1e-5)
            resetting = raw.terminated[time] | raw.truncated[time]
            accumulated[resetting] = 0.0
        np.testing.assert_allclose(observer.return_statistics.variance[seed], returns.var, rtol=1e-4)
        np.testing.assert_allclose(observer.return_statistics.count[seed], returns.count, rtol=1e-6)
        np.testing.assert_allclose(observer.discounted_return[seed], accumulated, rtol=1e-5, atol=1e-6)


def test_return_accumulators_restart_after_an_episode_and_ignore_the_reset_row() -> None:
    """Environment 0 terminates, 1 is truncated, 2 goes on."""
    preprocessing = Preprocessing(discount=0.5)
    nowhere, never = jnp.zeros((3, 2)), jnp.zeros(3, bool)
    observer = CollectorState.init(nowhere, preprocessing, Walk.spec)
    take_in = jax.jit(partial(observe, preprocessing=preprocessing))
    observer, _ = take_in(observer, TimeStep(nowhere, jnp.array([4.0, 2.0, 8.0]), never, never))
    np.testing.assert_array_equal(observer.discounted_return, [4, 2, 8])
    ends = jnp.array([[True, False, False], [False, True, False]])
    observer, row = take_in(observer, TimeStep(nowhere, jnp.array([1.0, 1.0, 1.0]), *ends))
    np.testing.assert_array_equal(observer.discounted_return, [0, 0, 5])
    np.testing.assert_array_equal(row.episodes.episode_return, [5, 3, 9])
    np.testing.assert_array_equal(row.episodes.length, [2, 2, 2])
    np.testing.assert_allclose(observer.return_statistics.count, 6.0001, rtol=1e-6)
    observer, row = take_in(observer, TimeStep(nowhere, jnp.array([0.0, 0.0, 1.0]), never, never))
    np.testing.assert_array_equal(row.weight, [0, 0, 1])
    np.testing.assert_allclose(observer.return_statistics.count, 7.0001, rtol=1e-6)
    np.testing.assert_allclose(
        observer.return_statistics.variance, np.var([4, 2, 8, 3, 2, 5, 3.5]) + 1e-4 * 15 / 7, rtol=1e-4
    )
    observer, row = take_in(observer, TimeStep(nowhere, jnp.array([2.0, 3.0, 1.0]), never, never))
    np.testing.assert_array_equal(observer.discounted_return, [2, 3, 2.75])
    np.testing.assert_array_equal(observer.episode_length, [1, 1, 4])
    np.testing.assert_array_equal(row.weight, [1, 1, 1])


def test_a_restart_begins_new_episodes_under_the_old_statistics() -> None:
    _, observer = compiled((7,), Preprocessing())
    alone = jax.tree.map(lambda x: x[0], observer)
    again = jax.jit(CollectorState.restart)(alone, jnp.ones((ENVS, 2)))
    np.testing.assert_allclose(again.observation_statistics.count, alone.observation_statistics.count + ENVS, rtol=1e-6)
    assert_same(again.return_statistics, alone.return_statistics)
    for counter in (again.ended, again.discounted_return, again.episode_return, again.episode_length):
        np.testing.assert_array_equal(counter, np.zeros(ENVS))


def test_images_are_not_normalized() -> None:
    spec = EnvSpec((36, 36, 3), DiscreteActions(2), "uint8")
    image = jnp.full((2, 36, 36, 3), 200, jnp.uint8)
    observer = CollectorState.init(image, Preprocessing(), spec)
    assert observer.observation_statistics is None
    assert observer.return_statistics is not None
    assert observer.observation.dtype == jnp.uint8
    np.testing.assert_array_equal(observer.observation, image)
