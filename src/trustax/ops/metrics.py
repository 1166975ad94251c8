"""Metrics: the names that other modules use, records, and metrics packed into one array for compiled programs."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from trustax.types import Metrics

STEP = "time/total_timesteps"
SPEED = "time/fps"
ELAPSED = "time/time_elapsed"
RESTARTS = "env/restarts"
RETURN = "rollout/ep_rew_mean"
SUCCESS = "rollout/success_rate"
SKIPPED = "train/skipped_updates"
EVALUATION_RETURN, EVALUATION_LENGTH = "eval/mean_reward", "eval/mean_ep_length"

Record = dict[str, Any]
"""Metrics by name; each value is an int, a float, None, or a list with a float or None for each seed."""


def finite_values(metric: Any) -> list[float]:
    """The finite numbers in a metric, which is one number or a list per seed; empty if there are none yet.

    >>> finite_values([1.0, None, float("nan")]), finite_values(2), finite_values(None)
    ([1.0], [2.0], [])
    """
    values = metric if isinstance(metric, Sequence) else [metric]
    return [float(value) for value in values if value is not None and math.isfinite(value)]


class MetricRow(eqx.Module):
    """Metrics packed into one array, with static names: separate metrics would each cost an operation and a transfer.

    >>> MetricRow.of({"loss": jnp.array(1.0), "norm": jnp.array(2.0)}).by_name()["norm"].tolist()
    2.0
    """

    values: Float[Array, "*axes metric"]
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, metrics: Metrics) -> "MetricRow":
        return cls(jnp.stack(list(metrics.values()), axis=-1) if metrics else jnp.zeros(0), tuple(metrics))

    def by_name(self) -> Metrics:
        """Unpack the metrics; each keeps the leading axes of the array."""
        return {name: self.values[..., index] for index, name in enumerate(self.names)}


def means(metrics: Metrics) -> MetricRow:
    """The mean of every metric; metrics of the same shape are averaged together.

    >>> means({"loss": jnp.array([1.0, 3.0]), "rate": jnp.array(0.5), "norm": jnp.array([4.0, 4.0])}).by_name()["loss"]
    Array(2., dtype=float32)
    """
    by_shape: dict[tuple[int, ...], Metrics] = {}
    for name, value in metrics.items():
        by_shape.setdefault(value.shape, {})[name] = value
    rows = [MetricRow.of(group) for group in by_shape.values()]
    values = [jnp.mean(row.values.reshape(-1, len(row.names)), axis=0) for row in rows]
    return MetricRow(jnp.concatenate(values) if values else jnp.zeros(0), tuple(n for row in rows for n in row.names))
