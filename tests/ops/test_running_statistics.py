"""Running statistics against NumPy in float64, and against Stable-Baselines3's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trustax.ops.running_statistics import LIMIT, MEMORY, RunningStatistics

update = jax.jit(RunningStatistics.update)


class RunningMeanStd:
    """Stable-Baselines3's class in float64, without weights."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.var, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, batch: np.ndarray) -> None:
        if len(batch) == 0:
            return
        delta, total = batch.mean(0) - self.mean, self.count + len(batch)
        m2 = self.var * self.count + batch.var(0) * len(batch) + delta**2 * self.count * len(batch) / total
        self.mean, self.var, self.count = self.mean + delta * len(batch) / total, m2 / total, total


def stream(shape: tuple[int, ...], time: int = 60, env: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    scale, shift = generator.uniform(0.1, 9, shape), generator.uniform(-5, 5, shape)
    samples = shift + scale * generator.normal(size=(time, env, *shape))
    weight = generator.random((time, env)) < 0.7
    weight[-3] = False
    return samples.astype(np.float32), weight


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_a_masked_stream_gives_stable_baselines_statistics_at_every_step(shape: tuple[int, ...]) -> None:
    samples, weight = stream(shape)
    statistics, reference = RunningStatistics.init(shape), RunningMeanStd(shape)
    for rows, counted in zip(samples, weight, strict=True):
        statistics = update(statistics, rows, counted.astype(np.float32))
        reference.update(rows[counted].astype(np.float64))
        np.testing.assert_allclose(statistics.mean, reference.mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(statistics.variance, reference.var, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(statistics.count, reference.count, rtol=1e-6)


def test_the_final_statistics_are_the_moments_of_all_rows_with_weight() -> None:
    samples, weight = stream((3,))

    def step(statistics: RunningStatistics, xs: tuple[jax.Array, jax.Array]) -> tuple[RunningStatistics, None]:
        return statistics.update(*xs), None

    final, _ = jax.lax.scan(step, RunningStatistics.init((3,)), (samples, weight.astype(np.float32)))
    counted = samples.astype(np.float64)[weight]
    np.testing.assert_allclose(final.mean, counted.mean(0), rtol=1e-5)
    start = 1e-4 * (1 + counted.mean(0) ** 2) / len(counted)
    np.testing.assert_allclose(final.variance, counted.var(0) + start, rtol=1e-5)


def test_the_initial_statistics_count_as_one_ten_thousandth_of_a_sample() -> None:
    start = RunningStatistics.init((2,))
    np.testing.assert_array_equal(start.mean, [0, 0])
    np.testing.assert_array_equal(start.variance, [1, 1])
    np.testing.assert_allclose(start.count, 1e-4, rtol=1e-6)
    one = update(start, jnp.array([[3.0, -4.0]]), jnp.ones(1))
    np.testing.assert_allclose(one.mean, np.array([3, -4]) / 1.0001, rtol=1e-5)
    expected = (1e-4 + np.array([9, 16]) * 1e-4 / 1.0001) / 1.0001
    np.testing.assert_allclose(one.variance, expected, atol=2e-7)  # the variance was 1 before


def test_very_long_runs_keep_the_variance() -> None:
    """float32 cannot count beyond 2²⁴: unless old samples lose their weight, every new one adds to the variance."""

    @jax.jit
    def alternate(statistics: RunningStatistics) -> RunningStatistics:
        def step(statistics: RunningStatistics, sign: jax.Array) -> tuple[RunningStatistics, None]:
            return statistics.update(sign[None], jnp.ones(1)), None

        return jax.lax.scan(step, statistics, jnp.tile(jnp.array([5.0, -5.0]), 1_000_000))[0]

    final = alternate(RunningStatistics(jnp.zeros(()), jnp.array(25.0), jnp.array(2.0**24)))
    np.testing.assert_allclose(final.variance, 25.0, rtol=1e-3)
    np.testing.assert_allclose(final.mean, 0.0, atol=1e-3)
    assert float(final.count) == MEMORY


def test_an_update_without_rows_changes_nothing() -> None:
    statistics = update(RunningStatistics.init((2,)), jnp.array([[1.0, 2.0], [3.0, 5.0]]), jnp.ones(2))
    same = update(statistics, jnp.full((2, 2), 1e6), jnp.zeros(2))
    for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(statistics), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_large_offsets_do_not_hide_small_variances() -> None:
    samples = (1000 + 0.1 * np.random.default_rng(0).normal(size=(100, 8, 1))).astype(np.float32)
    statistics = RunningStatistics.init((1,))
    for rows in samples:
        statistics = update(statistics, rows, jnp.ones(8))
    # float32 resolves 1000 to 6e-5; the start, 1e-4 of a sample at 0, adds 1000² · 1e-4 / 800 to the variance
    expected = samples.astype(np.float64).var() + 1e6 * 1e-4 / 800
    np.testing.assert_allclose(statistics.variance, [expected], rtol=1e-2)


def test_observations_are_standardized_and_rewards_only_scaled() -> None:
    statistics = RunningStatistics(jnp.array([1.0, 2.0]), jnp.array([4.0, 0.25]), jnp.array(10.0))
    samples = jnp.array([[2.0, 2.5], [-1.0, 1.0]])
    np.testing.assert_allclose(statistics.standardize(samples), [[0.5, 1.0], [-1.0, -2.0]], rtol=1e-5)
    np.testing.assert_allclose(statistics.scale(samples), [[1.0, 5.0], [-0.5, 2.0]], rtol=1e-5)


def test_normalized_values_are_clipped() -> None:
    statistics = RunningStatistics(jnp.zeros(()), jnp.ones(()), jnp.array(10.0))
    wild = jnp.array([-1e6, -9.5, 9.5, 1e6])
    for normalized in (statistics.standardize(wild), statistics.scale(wild)):
        np.testing.assert_allclose(normalized, [-LIMIT, -9.5, 9.5, LIMIT], rtol=1e-5)
    assert LIMIT == 10.0


def test_a_constant_observation_stays_finite() -> None:
    statistics = update(RunningStatistics.init((1,)), jnp.zeros((4, 1)), jnp.ones(4))
    assert np.isfinite(statistics.standardize(jnp.zeros((4, 1)))).all()


def test_mapping_over_seeds_changes_nothing() -> None:
    samples, weight = stream((2,), time=3)
    start = jax.vmap(lambda _: RunningStatistics.init((2,)))(jnp.arange(3))
    together = jax.jit(jax.vmap(RunningStatistics.update))(start, samples, weight.astype(np.float32))
    for seed in range(3):
        alone = update(RunningStatistics.init((2,)), samples[seed], weight[seed].astype(np.float32))
        np.testing.assert_allclose(together.mean[seed], alone.mean, rtol=1e-6)
        np.testing.assert_allclose(together.variance[seed], alone.variance, rtol=1e-5)
