"""What tuning maximizes: objectives of a trial, computed from the records of its run."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from jaxtyping import Float

from trustax.ops.metrics import RETURN, STEP, Record
from trustax.settings import Registry
from trustax.sweeps.statistics import interquartile_mean

Objective = Callable[[Sequence[Record], slice], float]
"""A function of the records of a run and of the learners of a trial; NaN if it is not known yet."""
MAX_REPORTS = 10
"""Intermediate values that are reported to Optuna at a time."""


def final(records: Sequence[Record], learners: slice) -> float:
    """The return of the last 100 episodes: the interquartile mean over seeds.

    >>> final([{STEP: 8, RETURN: [1.0, 2.0, 4.0]}], slice(1, 3))
    3.0
    """
    return _over_seeds(np.array(returns_of(records[-1], learners), dtype=float))


def area(records: Sequence[Record], learners: slice) -> float:
    """The area under the learning curve per step, which is the mean return: the interquartile mean over seeds.

    Records before the end of the first episode do not count.

    >>> area([{STEP: 8, RETURN: [None, 1.0]}, {STEP: 16, RETURN: [2.0, 3.0]}], slice(0, 2))
    2.0
    """
    curves = np.array([returns_of(record, learners) for record in records], dtype=float)
    counts = np.isfinite(curves).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return _over_seeds(np.nansum(curves, axis=0) / counts)


OBJECTIVES: Registry[Objective] = Registry("objective", "trustax.objectives", {"final": final, "area": area})


def returns_of(record: Record, learners: slice) -> list[float]:
    """The returns of the learners of a trial; NaN before the end of an episode."""
    return [float("nan") if value is None else value for value in record[RETURN][learners]]


def reported_values(
    objective: Objective, records: Sequence[Record], learners: slice, known: Collection[int]
) -> Iterator[tuple[int, float]]:
    """Steps and intermediate values of a trial after those that are known, at most ten and the last one."""
    new = [index for index in range(len(records)) if records[index][STEP] > max(known, default=0)]
    every = -(-len(new) // MAX_REPORTS) or 1
    for index in new[::-1][::every][::-1]:
        value = objective(records[: index + 1], learners)
        if np.isfinite(value):
            yield records[index][STEP], value


def _over_seeds(values: Float[np.ndarray, " seed"]) -> float:
    """NaN if a seed has no value: it has ended no episode."""
    return float(interquartile_mean([values])) if np.isfinite(values).all() else float("nan")
