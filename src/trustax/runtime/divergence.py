"""Divergence: an update whose result is not finite is skipped, and a learner that keeps diverging ends the run."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from trustax.ops.metrics import SKIPPED, Record
from trustax.types import Metrics

MAX_SKIPPED = 10
"""The run ends after this many skipped updates of a learner in a row."""
QUANTITIES = ("advantage", "loss", "gradient norm", "parameters")
"""What can be not finite in an update, in the order of cause and effect."""
METRICS = {
    # With finite rewards and values the explained variance is finite, so it shows whether the advantages are.
    "train/explained_variance": "advantage",
    "train/policy_gradient_loss": "loss",
    "train/value_loss": "loss",
    "train/loss": "loss",
    "train/gradient_norm": "gradient norm",
}
"""The metrics that show whether a quantity is finite."""
HEALTHY = -1


def skip_if_not_finite(old: Any, new: Any, metrics: Metrics) -> tuple[Any, Int[Array, ""]]:
    """The new state of one learner, or the old one if the loss or a number of the new state is not finite.

    Also returns the index in `QUANTITIES` of the first quantity that was not finite; `HEALTHY` if all were. There is
    no branch: the seeds of a run are mapped, and each decides for itself.
    """
    healthy = _stayed_finite(old, new)
    if "train/loss" in metrics:
        healthy &= jnp.all(jnp.isfinite(metrics["train/loss"]))
    learner = jax.tree.map(lambda before, after: jnp.where(healthy, after, before), old, new)
    return learner, jnp.where(healthy, HEALTHY, _first_bad(metrics))


def _stayed_finite(old: Any, new: Any) -> Bool[Array, ""]:
    """Whether every number is finite; a state of a user's algorithm may start with numbers that are not."""
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    flags = [
        jnp.all(jnp.isfinite(after) | ~jnp.isfinite(before))
        for before, after in pairs
        if jnp.issubdtype(after.dtype, jnp.inexact)
    ]
    return jnp.all(jnp.stack(flags)) if flags else jnp.array(True)


def _first_bad(metrics: Metrics) -> Int[Array, ""]:
    """The index of the first quantity that is not finite, in the earliest gradient update that has one."""
    first = jnp.array(jnp.iinfo(jnp.int32).max)
    for name, quantity in METRICS.items():
        if name in metrics:
            bad = ~jnp.isfinite(metrics[name].ravel())
            moment = jnp.argmax(bad) * len(QUANTITIES) + QUANTITIES.index(quantity)
            first = jnp.minimum(first, jnp.where(jnp.any(bad), moment, first))
    parameters = QUANTITIES.index("parameters")
    return jnp.where(first == jnp.iinfo(jnp.int32).max, parameters, first % len(QUANTITIES))


def skipped_so_far(records: Sequence[Record], causes: Sequence[int]) -> list[int]:
    """The number of skipped updates of each learner, from the last record and the causes of this iteration."""
    before = records[-1].get(SKIPPED, [0] * len(causes)) if records else [0] * len(causes)
    return [count + (cause != HEALTHY) for count, cause in zip(before, causes, strict=True)]


def divergence_of(records: Sequence[Record], causes: Sequence[int], num_iterations: int) -> str | None:
    """The error of the learners that are stuck; None if there is none."""
    stuck = [] if max(causes, default=HEALTHY) == HEALTHY else stuck_learners(records, num_iterations)
    if not stuck:
        return None
    cause, limit = causes[stuck[0]], min(MAX_SKIPPED, num_iterations)
    learners = ", ".join(str(learner) for learner in stuck if causes[learner] == cause)
    return (
        f"learner {learners} diverged: {QUANTITIES[cause]} not finite in {limit} updates in a row, which were skipped; "
        "try a smaller learning_rate"
    )


def stuck_learners(records: Sequence[Record], num_iterations: int) -> list[int]:
    """The learners whose last ten updates were skipped, or all updates of a shorter run."""
    limit = min(MAX_SKIPPED, num_iterations)
    if len(records) < limit:
        return []
    now = records[-1][SKIPPED]
    earlier = records[-1 - limit].get(SKIPPED) if len(records) > limit else None
    counts = zip(now, earlier or [0] * len(now), strict=True)
    return [learner for learner, (count, before) in enumerate(counts) if count - before >= limit]
