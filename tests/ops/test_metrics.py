"""Packed metrics keep their names."""

import jax
import jax.numpy as jnp
import numpy as np

from trustax.ops.metrics import MetricRow, means
from trustax.types import Metrics

SERIES = {"loss": jnp.array([1.0, 2.0, 6.0]), "norm": jnp.array([0.0, jnp.nan, 1.0]), "kl": jnp.array([4.0, 4.0, 4.0])}


def test_every_metric_keeps_its_name_under_jit_and_vmap() -> None:
    def tell(x: jax.Array) -> MetricRow:
        return MetricRow.of({"twice": 2 * x, "square": x**2})

    averages = jax.jit(jax.vmap(tell))(jnp.array([1.0, 3.0])).by_name()
    assert {name: values.tolist() for name, values in averages.items()} == {"twice": [2.0, 6.0], "square": [1.0, 9.0]}


def test_means_of_series_and_scalars() -> None:
    averages = means(SERIES | {"rate": jnp.array(0.5)} | {"long": jnp.arange(5.0)}).by_name()
    expected = {"loss": 3.0, "kl": 4.0, "rate": 0.5, "long": 2.0}
    assert {name: float(averages[name]) for name in expected} == expected
    assert np.isnan(averages["norm"])


def test_no_metrics_give_an_empty_row() -> None:
    nothing: Metrics = {}
    assert MetricRow.of(nothing).by_name() == means(nothing).by_name() == {}
