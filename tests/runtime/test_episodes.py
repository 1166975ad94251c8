"""The window of finished episodes against a deque of a hundred."""

import dataclasses
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.runtime.episodes import WINDOW, EpisodeWindow, FinishedEpisodes

add = jax.jit(EpisodeWindow.add)


def rollout(seed: int, rate: float, time: int = 40, env: int = 8) -> FinishedEpisodes:
    generator = np.random.default_rng(seed)
    return FinishedEpisodes(
        jnp.asarray(generator.random((time, env)) < rate),
        jnp.asarray(generator.normal(100, 50, (time, env)), jnp.float32),
        jnp.asarray(generator.integers(1, 500, (time, env)), jnp.int32),
    )


def means(window: EpisodeWindow) -> list[float]:
    return [float(window.mean(window.returns)), float(window.mean(window.lengths))]


def test_the_mean_is_nan_before_the_first_episode() -> None:
    window = add(EpisodeWindow.init(), rollout(0, rate=0.0))
    assert np.isnan(means(window)).all()
    assert window.count == 0


@pytest.mark.parametrize("rates", [[0.01] * 8, [0.2] * 5, [0.9, 0.0, 0.05, 1.0, 0.02]])
def test_means_match_a_deque_of_a_hundred_episodes(rates: list[float]) -> None:
    window, returns, lengths = EpisodeWindow.init(), deque(maxlen=100), deque(maxlen=100)
    finished = 0
    for seed, rate in enumerate(rates):
        episodes = rollout(seed, rate)
        window = add(window, episodes)
        ended = np.asarray(episodes.ended)
        returns.extend(np.asarray(episodes.episode_return, np.float64)[ended])
        lengths.extend(np.asarray(episodes.length)[ended])
        finished += ended.sum()
        assert window.count == finished
        np.testing.assert_allclose(means(window), [np.mean(returns), np.mean(lengths)], rtol=1e-5)
    assert finished > 0


def test_episodes_that_do_not_report_success_have_failed() -> None:
    all_ended = dataclasses.replace(rollout(0, rate=1.0, time=13), success=jnp.ones((13, 8), bool))
    window = add(EpisodeWindow.init(), all_ended)
    assert float(window.mean(window.successes)) == 1.0
    window = add(window, rollout(1, rate=1.0, time=13))
    assert float(window.mean(window.successes)) == 0.0


def test_the_ring_continues_at_its_position_and_overwrites_the_oldest() -> None:
    window = EpisodeWindow.init()
    for first in (0, 70, 140):
        numbers = jnp.arange(first, first + 70).reshape(35, 2)
        episodes = FinishedEpisodes(jnp.ones((35, 2), bool), numbers.astype(jnp.float32), numbers)
        window = add(window, episodes)
    expected = np.arange(110, 210)
    np.testing.assert_array_equal(window.returns, np.roll(expected, 110 % WINDOW))
    np.testing.assert_array_equal(window.lengths, np.roll(expected, 110 % WINDOW))


@pytest.mark.parametrize("already", [0, 30])
def test_the_newest_episodes_are_kept_if_there_are_too_many(already: int) -> None:
    window = EpisodeWindow.init()
    for count in (already, 250):
        numbers = jnp.arange(count).reshape(-1, 1)
        everywhere = jnp.ones(numbers.shape, bool)
        window = add(window, FinishedEpisodes(everywhere, numbers.astype(jnp.float32), numbers))
    assert sorted(np.asarray(window.returns)) == list(range(150, 250))
    assert window.count == already + 250


def test_episodes_of_one_step_are_in_the_order_of_the_environments() -> None:
    ended = jnp.array([[False, True, True], [True, False, False]])
    window = add(EpisodeWindow.init(), FinishedEpisodes(ended, jnp.arange(6.0).reshape(2, 3), jnp.ones((2, 3), int)))
    np.testing.assert_array_equal(window.returns[:4], [1, 2, 3, 0])


def test_each_seed_has_its_own_window() -> None:
    rollouts = [rollout(seed, 0.1 * (seed + 1)) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *rollouts)
    start = jax.vmap(lambda _: EpisodeWindow.init())(jnp.arange(3))
    together = jax.jit(jax.vmap(EpisodeWindow.add))(start, stacked)
    for seed in range(3):
        alone = add(EpisodeWindow.init(), rollouts[seed])
        np.testing.assert_array_equal(together.returns[seed], alone.returns)
        assert together.count[seed] == alone.count
