"""The context of the attention network: how far apart the three policies are, and how good each of them is."""

from typing import Literal

import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from trustax.algorithms.batch import Batch, Evaluation
from trustax.ops.objectives import expectations

ContextFeatures = Literal["all", "half"]
NUM_FEATURES: dict[ContextFeatures, int] = {"all": 12, "half": 6}
LIMIT = 100.0
"""The context is clipped to ± this value, so that one extreme feature cannot saturate the attention."""


def context_of(
    new: Evaluation, virtual: Evaluation, batch: Batch, which: ContextFeatures
) -> tuple[Float[Array, " context"], Float[Array, ""]]:
    """v: distances, returns, entropies, value errors of ψ_old, θ_old, θ (the paper's Table 5); and D(θ_old, θ)."""
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
    return stop_gradient(jnp.clip(finite, -LIMIT, LIMIT)), means[2]
