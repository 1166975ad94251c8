"""V-MPO: on-policy maximum a posteriori policy optimization.

    minimize over θ      -Σ_{i∈S} wᵢ log π_θ(aᵢ|sᵢ) + α Ê[KL(π_old‖π_θ)],   wᵢ = softmax over S of Aᵢ/η
    minimize over η > 0   η ε_η + η log mean_{i∈S} exp(Aᵢ/η)
    minimize over α > 0   α (ε_α - Ê[KL(π_old‖π_θ)])

S is the half of the samples with the larger advantages. The temperature η sets how strongly the weights w prefer larger
advantages, the multiplier α sets the cost of distance from the old policy; both are learned with the policy.

Public code differs in the first term. V-MPO's paper, rlax and Stoix sum over S, as above (`reduction="sum"`, the
default). The code that the MCPO paper names, YYCAAA/V-MPO_Lunarlander, also divides by |S| (`reduction="mean"`), so the
KL penalty has |S| times the relative weight. The presets of the MCPO paper's tables take the mean, whose returns are
nearer to the paper's; docs/readings-tables.md shows both.

Song et al.: V-MPO: On-Policy Maximum a Posteriori Policy Optimization for Discrete and Continuous Control. ICLR 2020.
arXiv:1909.12238
"""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Bool, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, ascend, batch_metrics, init_actor_critic
from trustax.errors import TrustaxError
from trustax.networks import Policy
from trustax.ops.adam import AdamState, adam_init, adam_step
from trustax.ops.minibatches import over_minibatches
from trustax.ops.objectives import mean_kl
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

SMALLEST_DUAL = 1e-8
"""η and α are at least this."""


class Duals(eqx.Module):
    temperature: Float[Array, ""]
    """η"""
    kl_cost: Float[Array, ""]
    """α"""


class VMPOState(eqx.Module):
    learner: ActorCritic
    duals: Duals
    dual_adam: AdamState

    @property
    def policy(self) -> Policy:
        return self.learner.policy


@dataclass(frozen=True, kw_only=True)
class VMPO(FirstOrder):
    """V-MPO (Song et al. 2020)."""

    initial_kl_cost: PerLearner = setting(1.0, minimum=0)
    """Weight of the KL divergence at the start (α₀)."""
    initial_temperature: PerLearner = setting(1.0, minimum=SMALLEST_DUAL)
    """Temperature of the weights at the start (η₀)."""
    kl_target: PerLearner = setting(0.1, minimum=0)
    """The KL divergence between old and new policy that α adapts to (ε_α)."""
    temperature_target: PerLearner = setting(0.02, minimum=0)
    """How far the weights may be from uniform (ε_η)."""
    reduction: Literal["sum", "mean"] = "sum"
    """Sum the weighted log-likelihoods, as published, or average them, as the code that MCPO's paper names does."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> VMPOState:
        duals = Duals(jnp.array(self.initial_temperature, jnp.float32), jnp.array(self.initial_kl_cost, jnp.float32))
        return VMPOState(init_actor_critic(self, key, spec), duals, adam_init(duals))

    def update(
        self, state: VMPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[VMPOState, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        if batch.weight.shape[0] < 2 * self.num_minibatches:
            raise TrustaxError(
                "vmpo learns from the better half of a minibatch, which needs at least 2 samples; use fewer minibatches"
            )

        def step(state: VMPOState, minibatch: Batch, _: None) -> tuple[VMPOState, Metrics]:
            return self._step(state, minibatch, progress)

        state, metrics = over_minibatches(step, state, batch, key, self.num_epochs, self.num_minibatches)
        return state, metrics | batch_metrics(self, batch, progress)

    def _step(self, state: VMPOState, batch: Batch, progress: Progress) -> tuple[VMPOState, Metrics]:
        chosen = better_half(batch.advantage, batch.weight)
        imitation = jax.nn.softmax(batch.advantage / state.duals.temperature, where=chosen)
        count = 1 if self.reduction == "sum" else jnp.maximum(jnp.sum(chosen), 1)
        scale = jnp.sum(batch.weight) / count  # undo the mean over samples that `ascend` takes

        def objective(
            new: Evaluation, batch: Batch, remaining: Float[Array, ""]
        ) -> tuple[Float[Array, " batch"], Metrics]:
            likelihood = scale * imitation * new.distribution.log_prob(batch.action)
            distance = batch.old_distribution.kl(new.distribution)
            return likelihood - state.duals.kl_cost * distance, {}

        kl = mean_kl(batch.old_distribution, evaluate(state.policy, batch).distribution, batch.weight)
        learner, metrics = ascend(self, objective, state.learner, batch, progress)
        gradient = jax.grad(self._dual_loss)(state.duals, batch.advantage, chosen, kl)
        duals, dual_adam, _ = adam_step(
            state.duals, gradient, state.dual_adam, self.learning_rate_at(progress), max_gradient_norm=jnp.inf
        )
        duals = jax.tree.map(lambda dual: jnp.maximum(dual, SMALLEST_DUAL), duals)
        return VMPOState(learner, duals, dual_adam), metrics | {
            "vmpo/temperature": state.duals.temperature,
            "vmpo/kl_cost": state.duals.kl_cost,
        }

    def _dual_loss(
        self, duals: Duals, advantage: Float[Array, " batch"], chosen: Bool[Array, " batch"], kl: Float[Array, ""]
    ) -> Float[Array, ""]:
        # The better half of a single sample is empty: use all samples then, with advantages of 0.
        chosen, advantage = chosen | ~chosen.any(), jnp.where(chosen.any(), advantage, 0.0)
        log_mean = jax.nn.logsumexp(advantage / duals.temperature, where=chosen) - jnp.log(jnp.sum(chosen))
        temperature_loss = duals.temperature * (self.temperature_target + log_mean)
        return temperature_loss + duals.kl_cost * (self.kl_target - stop_gradient(kl))


def better_half(advantage: Float[Array, " batch"], weight: Float[Array, " batch"]) -> Bool[Array, " batch"]:
    """Mask of the samples with the larger advantages: half of those whose weight is not 0.

    >>> better_half(jnp.array([3.0, 1.0, 2.0, 0.0, 9.0]), jnp.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    Array([ True, False,  True, False, False], dtype=bool)
    """
    counts = weight > 0
    from_the_best = jnp.argsort(-jnp.where(counts, advantage, -jnp.inf))
    in_half = jnp.arange(advantage.shape[0]) < jnp.sum(counts) // 2
    return jnp.zeros_like(counts).at[from_the_best].set(in_half)
