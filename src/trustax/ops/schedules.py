"""Schedules: factors of a setting, as functions of a run's progress."""

from typing import Any, Literal

import jax.numpy as jnp

from trustax.types import Progress

Schedule = Literal["constant", "linear", "cosine", "piecewise"]
PIECEWISE_FACTOR = 0.1


def schedule_factor(schedule: Schedule, progress: Progress, boundaries: tuple[float, ...] = ()) -> Any:
    """The factor of one iteration, from 1 at the first one.

    `linear` and `cosine` fall to almost 0 at the last iteration. `piecewise` is divided by ten at each of the
    boundaries, which are fractions of the run.

    >>> [float(schedule_factor("linear", Progress(i, 4))) for i in range(4)]
    [1.0, 0.75, 0.5, 0.25]
    >>> [round(float(schedule_factor("cosine", Progress(i, 4))), 3) for i in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    >>> [round(float(schedule_factor("piecewise", Progress(i, 4), (0.5, 0.75))), 3) for i in range(4)]
    [1.0, 1.0, 0.1, 0.01]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "linear":
        return progress.remaining
    done = progress.iteration / progress.num_iterations
    if schedule == "cosine":
        return 0.5 * (1 + jnp.cos(jnp.pi * done))
    passed = sum((jnp.asarray(done >= boundary, jnp.float32) for boundary in boundaries), jnp.zeros(()))
    return PIECEWISE_FACTOR**passed
