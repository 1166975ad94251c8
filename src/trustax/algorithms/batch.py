"""A rollout as a batch of samples, and a policy evaluated on it: where every method begins."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Shaped

from trustax.networks import Policy
from trustax.ops.advantages import gae
from trustax.ops.distributions import Distribution
from trustax.ops.objectives import importance_ratio, standardize
from trustax.types import Rollout


class Batch(eqx.Module):
    """A rollout as a set of samples, with all that the old policy has to say of them."""

    observation: Shaped[Array, "batch ..."]
    action: Shaped[Array, "batch ..."]
    advantage: Float[Array, " batch"]
    value_target: Float[Array, " batch"]
    weight: Float[Array, " batch"]
    old_distribution: Distribution
    old_log_prob: Float[Array, " batch"]
    old_value: Float[Array, " batch"]
    extra: Any = None
    """what a method adds to each sample"""


class Evaluation(eqx.Module):
    """What a policy says of the samples of a batch."""

    distribution: Distribution
    value: Float[Array, " batch"]
    ratio: Float[Array, " batch"]


def make_batch(policy: Policy, rollout: Rollout, discount: float, gae_lambda: Float[Array, ""] | float) -> Batch:
    """Evaluate the policy that collected the rollout, and estimate advantages and value targets.

    Advantages are standardized once over the rollout; the value target is G = Â + V_old with Â as estimated.
    """
    time, env = rollout.reward.shape
    seen = rollout.observation.reshape((time + 1) * env, *rollout.observation.shape[2:])
    distribution, values = policy.batch(seen)
    value = values.reshape(time + 1, env)
    advantage = gae(rollout.reward, value, rollout.terminated, rollout.truncated, discount, gae_lambda)
    num_samples = time * env
    action = rollout.action.reshape(num_samples, *rollout.action.shape[2:])
    old_distribution = jax.tree.map(lambda x: x[:num_samples], distribution)
    return Batch(
        observation=seen[:num_samples],
        action=action,
        advantage=standardize(advantage, rollout.weight).reshape(num_samples),
        value_target=(advantage + value[:-1]).reshape(num_samples),
        weight=rollout.weight.reshape(num_samples),
        old_distribution=old_distribution,
        old_log_prob=old_distribution.log_prob(action),
        old_value=values[:num_samples],
    )


def evaluate(policy: Policy, batch: Batch) -> Evaluation:
    """π, V and τ = π/π_old of a policy on the samples of a batch."""
    distribution, value = policy.batch(batch.observation)
    return Evaluation(distribution, value, importance_ratio(distribution.log_prob(batch.action), batch.old_log_prob))
