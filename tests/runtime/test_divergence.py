"""A learner that diverges skips its bad updates, leaves the others alone, and in the end stops the run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trustax as tx
from tests.test_training import SMALL, arrays, small
from trustax.algorithms import ALGORITHMS
from trustax.ops.metrics import SKIPPED
from trustax.runtime.divergence import HEALTHY, QUANTITIES, divergence_of, skip_if_not_finite
from trustax.storage.history import newest_valid, step_of
from trustax.storage.journal import read_records

FINE = {"train/loss": jnp.ones(3), "train/gradient_norm": jnp.ones(3), "train/explained_variance": jnp.ones(())}
BAD = jnp.array([1.0, jnp.nan, jnp.nan])


@pytest.mark.parametrize(
    ("parameter", "metrics", "cause"),
    [
        (2.0, {}, None),
        (jnp.inf, {}, "parameters"),
        (jnp.nan, {"train/loss": BAD}, "loss"),
        (2.0, {"train/loss": BAD}, "loss"),
        (jnp.nan, {"train/loss": BAD, "train/gradient_norm": jnp.array([jnp.inf, 1.0, 1.0])}, "gradient norm"),
        (jnp.nan, {"train/loss": BAD.at[0].set(jnp.nan), "train/explained_variance": jnp.array(jnp.nan)}, "advantage"),
    ],
)
def test_a_bad_update_is_skipped_and_its_first_cause_is_named(parameter: float, metrics: Any, cause: str) -> None:
    old = {"parameters": jnp.zeros(2), "count": jnp.int32(0), "unset": jnp.array(jnp.inf), "key": jax.random.key(0)}
    new = old | {"parameters": jnp.array([1.0, parameter]), "count": jnp.int32(1), "key": jax.random.key(1)}
    kept, found = skip_if_not_finite(old, new, FINE | metrics)
    expected = new if cause is None else old
    for one, other in zip(arrays(kept), arrays(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(found) == (HEALTHY if cause is None else QUANTITIES.index(cause))


def test_only_skips_in_a_row_end_a_run() -> None:
    def records(*counts: int) -> list[dict[str, Any]]:
        return [{SKIPPED: [0, count]} for count in counts]

    assert divergence_of(records(*range(1, 10)), [HEALTHY, 1], 100) is None
    assert divergence_of(records(*range(1, 11)), [HEALTHY, HEALTHY], 100) is None
    assert divergence_of(records(1, 2, 2, *range(3, 12)), [HEALTHY, 1], 100) is None
    assert "learner 1 diverged: loss not finite in 10" in str(divergence_of(records(*range(1, 11)), [-1, 1], 100))
    assert "in 3 updates in a row" in str(divergence_of(records(1, 2, 3), [-1, 2], 3))
    assert divergence_of([{}] * 20 + records(*range(1, 10)), [HEALTHY, 1], 100) is None  # an older file's records


@dataclass(frozen=True, kw_only=True)
class Diverging(tx.PPO):  # type: ignore[misc]
    """PPO whose policy gets NaN from an iteration on, if `clip_range` is below 0.1."""

    start: int = 2
    end: int = 100

    def update(self, state: Any, rollout: Any, progress: Any, key: Any) -> Any:
        state, metrics = super().update(state, rollout, progress, key)
        bad = (self.clip_range < 0.1) & (progress.iteration >= self.start) & (progress.iteration < self.end)
        return jax.tree.map(
            lambda x: jnp.where(bad, jnp.full_like(x, -1), x) if x.ndim == 0 else jnp.where(bad, jnp.nan, x), state
        ), metrics


def test_one_learner_diverges_and_the_other_learns_as_if_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "diverging", Diverging)
    settings = SMALL | {"num_seeds": 2, "total_timesteps": 128 * 20}

    def run(folder: str, clip_range: tuple[float, float], **fields: int) -> tx.Result:
        algorithm = small(Diverging, clip_range=clip_range, **fields)
        return tx.train(algorithm, "CartPole-v1", run_dir=tmp_path / folder, **settings)

    healthy, passing = run("healthy", (0.2, 0.2)), run("passing", (0.05, 0.2), end=11)
    assert healthy.records[-1][SKIPPED] == [0, 0]
    assert passing.records[-1][SKIPPED] == [9, 0]
    for one, other in zip(arrays(healthy.state), arrays(passing.state), strict=True):
        assert one.ndim == 0 or np.array_equal(one[1], other[1])
        assert np.isfinite(other).all()
    with pytest.raises(tx.TrustaxError, match=r"learner 0 diverged: parameters not finite in 10 updates"):
        run("stopped", (0.05, 0.2))
    assert [record[SKIPPED][0] for record in read_records(tmp_path / "stopped")][-2:] == [9, 10]


def test_a_state_that_is_not_finite_is_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experience is NaN in the third iteration; what was saved after the first stays the newest."""
    from trustax.runtime.train_step import TrainStep
    from trustax.storage.run_directory import RunDirectory

    plain = TrainStep.__call__

    def broken(step: Any, state: Any, num_iterations: int) -> Any:
        iteration = int(state.iteration) + 1
        result = plain(step, state, num_iterations)
        return result._replace(fault="reward is nan" if iteration == 3 else None)

    monkeypatch.setattr(TrainStep, "__call__", broken)
    monkeypatch.setattr(RunDirectory, "should_save", lambda directory, number, stopping: stopping or number == 1)
    with pytest.raises(tx.TrustaxError, match=r"reward is nan.*step_000000000128"):
        tx.train(small(), "CartPole-v1", run_dir=tmp_path / "run", **SMALL)
    saved = newest_valid(tmp_path / "run")
    assert saved is not None
    assert step_of(saved) == 128
