"""Metrics: their names, what a record of them is, and many of them as one row in a compiled program."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from trustax.types import Metrics

STEP = "time/total_timesteps"
SPEED = "time/fps"
RETURN = "rollout/ep_rew_mean"
SUCCESS = "rollout/success_rate"

Record = dict[str, Any]
"""Metrics by name; each an int, a float, None, or a list per seed of floats and None."""


def finite_values(metric: Any) -> list[float]:
    """The numbers in a metric, whether it is one number or a list per seed; empty where there are none yet.

    >>> finite_values([1.0, None, float("nan")]), finite_values(2), finite_values(None)
    ([1.0], [2.0], [])
    """
    values = metric if isinstance(metric, Sequence) else [metric]
    return [float(value) for value in values if value is not None and math.isfinite(value)]


class MetricRow(eqx.Module):
    """Metrics side by side under names that are static: each by itself would be an operation, and a transfer.

    >>> MetricRow.of({"loss": jnp.array(1.0), "norm": jnp.array(2.0)}).by_name()["norm"].tolist()
    2.0
    """

    values: Float[Array, "*axes metric"]
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, metrics: Metrics) -> "MetricRow":
        return cls(jnp.stack(list(metrics.values()), axis=-1) if metrics else jnp.zeros(0), tuple(metrics))

    def by_name(self) -> Metrics:
        """Metric by metric, with the axes that the rows were stacked along."""
        return {name: self.values[..., place] for place, name in enumerate(self.names)}


def means(metrics: Metrics) -> MetricRow:
    """The mean of every metric, of those that are series of one length all at once.

    >>> means({"loss": jnp.array([1.0, 3.0]), "rate": jnp.array(0.5), "norm": jnp.array([4.0, 4.0])}).by_name()["loss"]
    Array(2., dtype=float32)
    """
    by_shape: dict[tuple[int, ...], Metrics] = {}
    for name, value in metrics.items():
        by_shape.setdefault(value.shape, {})[name] = value
    rows = [MetricRow.of(alike) for alike in by_shape.values()]
    values = [jnp.mean(row.values.reshape(-1, len(row.names)), axis=0) for row in rows]
    return MetricRow(jnp.concatenate(values) if values else jnp.zeros(0), tuple(n for row in rows for n in row.names))
