"""The settings, the state and the update step that all methods with Adam steps on minibatches share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Key

from trustax.algorithms.batch import Batch, Evaluation, evaluate
from trustax.networks import NetworkSettings, Policy, architecture_of
from trustax.ops.adam import AdamState, adam_init, adam_step
from trustax.ops.minibatches import over_minibatches
from trustax.ops.objectives import clipped_value_error, expectations, explained_variance
from trustax.ops.schedules import Schedule, schedule_factor
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress


@dataclass(frozen=True, kw_only=True)
class FirstOrder(NetworkSettings):
    """The settings of every method that takes Adam steps on minibatches. Settings only: no method is inherited."""

    learning_rate: PerLearner = setting(3e-4, minimum=0)
    """Step size of Adam at the start."""
    learning_rate_schedule: Schedule = "linear"
    """How the learning rate changes over the run: linear and cosine fall to 0, piecewise falls in steps."""
    schedule_boundaries: tuple[float, ...] = setting((0.5, 0.75), minimum=0, maximum=1)
    """Fractions of the run at which a piecewise schedule is divided by ten."""
    num_epochs: int = setting(10, minimum=1)
    """Passes over each rollout (K in the paper)."""
    num_minibatches: int = setting(64, minimum=1)
    """Minibatches in each pass; one holds num_envs * horizon / num_minibatches samples."""
    discount: float = setting(0.99, minimum=0, maximum=1)
    """Discount factor γ."""
    gae_lambda: PerLearner = setting(0.95, minimum=0, maximum=1)
    """λ of generalized advantage estimation."""
    value_cost: PerLearner = setting(0.5, minimum=0)
    """Weight of the value loss (c₁)."""
    value_clip_range: PerLearner = setting(0.2, minimum=0)
    """How far a value may move from its old one before its loss is clipped."""
    entropy_cost: PerLearner = setting(0.0, minimum=0)
    """Weight of the entropy bonus (c₂)."""
    max_gradient_norm: PerLearner = setting(0.5, minimum=0)
    """Gradients are scaled down to this global norm."""

    def learning_rate_at(self, progress: Progress) -> Float[Array, ""]:
        """The step size of one iteration."""
        factor = schedule_factor(self.learning_rate_schedule, progress, self.schedule_boundaries)
        return jnp.asarray(self.learning_rate * factor, jnp.float32)


class ActorCritic(eqx.Module):
    """A policy and the moments of its optimizer: all the state that most first-order methods have."""

    policy: Policy
    adam: AdamState


Objective = Callable[[Evaluation, Batch, Any], tuple[Float[Array, " batch"], Metrics]]
"""The objective of a method for each sample of a minibatch, and additional metrics, either scalars or one value per
sample. Its arguments are the new policy's evaluation of the minibatch, the minibatch, and the fraction of the run that
remains, which falls from 1 to 0."""


def init_actor_critic(settings: FirstOrder, key: Key[Array, ""], spec: EnvSpec) -> ActorCritic:
    """Initialize a policy and its optimizer."""
    policy = architecture_of(settings, spec).init(key)
    return ActorCritic(policy, adam_init(policy))


def improve(
    settings: FirstOrder,
    objective: Objective,
    state: ActorCritic,
    batch: Batch,
    progress: Progress,
    key: Key[Array, ""],
) -> tuple[ActorCritic, Metrics]:
    """All epochs and minibatches of one iteration: `ascend` on each."""

    def step(state: ActorCritic, minibatch: Batch, _: None) -> tuple[ActorCritic, Metrics]:
        return ascend(settings, objective, state, minibatch, progress)

    state, metrics = over_minibatches(step, state, batch, key, settings.num_epochs, settings.num_minibatches)
    return state, metrics | batch_metrics(settings, batch, progress)


def ascend(
    settings: FirstOrder, objective: Objective, state: ActorCritic, batch: Batch, progress: Progress
) -> tuple[ActorCritic, Metrics]:
    """One Adam step up `objective` - c₁·value loss + c₂·entropy: the step of every first-order method."""
    remaining = fraction_of_updates_left(settings, state.adam.count, progress)

    def loss_of(policy: Policy) -> tuple[Float[Array, ""], Metrics]:
        new = evaluate(policy, batch)
        gain, extra_metrics = objective(new, batch, remaining)
        value_error = clipped_value_error(new.value, batch.old_value, batch.value_target, settings.value_clip_range)
        rows = {
            "train/policy_gradient_loss": -gain,
            "train/value_loss": value_error,
            "train/entropy_loss": -new.distribution.entropy(),
            "train/approx_kl": stop_gradient(batch.old_distribution.kl(new.distribution)),
        } | {name: stop_gradient(row) for name, row in extra_metrics.items() if row.ndim}
        means = dict(zip(rows, expectations(list(rows.values()), batch.weight), strict=True))
        loss = (
            means["train/policy_gradient_loss"]
            + settings.value_cost * means["train/value_loss"]
            + settings.entropy_cost * means["train/entropy_loss"]
        )
        return loss, extra_metrics | means | {"train/loss": loss}

    gradient, metrics = jax.grad(loss_of, has_aux=True)(state.policy)
    policy, adam, norm = adam_step(
        state.policy, gradient, state.adam, settings.learning_rate_at(progress), settings.max_gradient_norm
    )
    return ActorCritic(policy, adam), metrics | {"train/gradient_norm": norm}


def fraction_of_updates_left(settings: FirstOrder, num_updates: Int[Array, ""], progress: Progress) -> Float[Array, ""]:
    """Falls from 1 to 0 over the run. The product is a float, because 32 bits are too few for it in a long run."""
    return 1.0 - num_updates / (float(settings.num_epochs * settings.num_minibatches) * progress.num_iterations)


def batch_metrics(settings: FirstOrder, batch: Batch, progress: Progress) -> Metrics:
    """The metrics that have one value per iteration instead of one per update."""
    return {
        "train/explained_variance": explained_variance(batch.old_value, batch.value_target, batch.weight),
        "train/learning_rate": settings.learning_rate_at(progress),
    }
