"""Turn a rollout into a batch of samples, and evaluate a policy on it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from trustax.networks import Policy
from trustax.ops.advantages import gae
from trustax.ops.distributions import Distribution
from trustax.ops.objectives import importance_ratio, standardize
from trustax.ops.transforms import sum_over_devices
from trustax.types import Rollout


class Batch(eqx.Module):
    """A rollout as a flat batch of samples, with the outputs of the old policy on them."""

    observation: Shaped[Array, "batch ..."]
    action: Shaped[Array, "batch ..."]
    advantage: Float[Array, " batch"]
    value_target: Float[Array, " batch"]
    weight: Float[Array, " batch"]
    old_distribution: Distribution
    old_log_prob: Float[Array, " batch"]
    old_value: Float[Array, " batch"]
    extra: Any = None
    """what an algorithm adds to each sample"""


class Evaluation(eqx.Module):
    """The outputs of a policy on a batch."""

    distribution: Distribution
    value: Float[Array, " batch"]
    ratio: Float[Array, " batch"]


def make_batch(policy: Policy, rollout: Rollout, discount: float, gae_lambda: Float[Array, ""] | float) -> Batch:
    """Evaluate the policy that collected the rollout, and compute advantages and value targets.

    Advantages are standardized once over the rollout; the value target is G = Â + V_old with the unstandardized Â.
    """
    time, env = rollout.reward.shape
    observation = rollout.observation.reshape((time + 1) * env, *rollout.observation.shape[2:])
    distribution, values = policy.batch(observation)
    value = values.reshape(time + 1, env)
    advantage = gae(rollout.reward, value, rollout.terminated, rollout.truncated, discount, gae_lambda)
    num_samples = time * env
    action = rollout.action.reshape(num_samples, *rollout.action.shape[2:])
    old_distribution = jax.tree.map(lambda x: x[:num_samples], distribution)
    return Batch(
        observation=observation[:num_samples],
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


def count_samples(batch: Batch) -> Float[Array, ""]:
    """The number of samples of a batch or minibatch on all devices."""
    return sum_over_devices(jnp.array(batch.weight.size, jnp.float32))


def is_continuous(batch: Batch) -> bool:
    """Whether actions are box actions."""
    return jnp.issubdtype(batch.action.dtype, jnp.floating)
