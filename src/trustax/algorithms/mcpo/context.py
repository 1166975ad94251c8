"""The context of the attention network: how far apart the three policies are, and how good each of them is."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from trustax.algorithms.batch import Batch, Evaluation
from trustax.ops.objectives import expectations

ContextFeatures = Literal["all", "half"]
NUM_FEATURES: dict[ContextFeatures, int] = {"all": 12, "half": 6}
LIMIT = 100.0
"""The context is clipped to ± this value, so that one extreme feature cannot saturate the attention."""


class Context(NamedTuple):
    """The input v of the attention network, and two of its features as they are."""

    features: Float[Array, " context"]
    """v, detached, finite and clipped"""
    old_to_new: Float[Array, ""]
    """D(θ_old, θ)"""
    return_old: Float[Array, ""]
    """Ê[A]"""


def context_of(new: Evaluation, virtual: Evaluation, batch: Batch, which: ContextFeatures) -> Context:
    """Distances, returns, entropies and value errors of ψ_old, θ_old and θ (the paper's Table 5)."""
    old, advantage = batch.old_distribution, batch.advantage
    features = [
        new.distribution.kl(virtual.distribution),
        old.kl(virtual.distribution),
        old.kl(new.distribution),
        virtual.ratio * advantage,
        advantage,
        new.ratio * advantage,
    ]
    if which == "all":
        features += [p.entropy() for p in (virtual.distribution, old, new.distribution)]
        features += [(value - batch.value_target) ** 2 for value in (virtual.value, batch.old_value, new.value)]
    means = expectations(features, batch.weight)
    finite = jnp.nan_to_num(means, posinf=LIMIT, neginf=-LIMIT)
    return Context(stop_gradient(jnp.clip(finite, -LIMIT, LIMIT)), old_to_new=means[2], return_old=means[4])
