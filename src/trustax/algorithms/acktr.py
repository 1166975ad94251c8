"""Actor-critic with a Kronecker-factored trust region.

    minimize over θ   L = -Ê[(G - V) log π(a|s)] + c₁ Ê[(G - V)²] - c₂ Ê[H]
    by θ ← θ - η ν (F + λ)⁻¹ ∇L   with   ν = min(1, √(δ/q)),   q = η² ∇Lᵀ (F + λ)⁻¹ ∇L

Each iteration takes one step on the whole rollout: the natural gradient of actor *and* critic, whose Fisher information
F is a Kronecker product for every layer. The step is scaled down to the trust region δ and smoothed by momentum. To
estimate F, values are sampled from a normal distribution around V; the actions are those of the rollout, which are
samples of π.

Wu, Mansimov, Liao, Grosse, Ba: Scalable trust-region method for deep reinforcement learning using Kronecker-factored
approximation. NeurIPS 2017. arXiv:1708.05144
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, make_batch
from trustax.networks import NetworkSettings, Policy, architecture_of
from trustax.ops.kfac import KroneckerFactors, fisher_factors, require_factors, trust_region_scale
from trustax.ops.objectives import expectation, explained_variance, mean_entropy, mean_kl, squared_error
from trustax.ops.schedules import Schedule, schedule_factor
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout


class ACKTRState(eqx.Module):
    policy: Policy
    velocity: Float[Array, " parameter"]
    """the momentum of the policy's parameters"""
    curvature: KroneckerFactors
    """F"""


@dataclass(frozen=True, kw_only=True)
class ACKTR(NetworkSettings):
    """Actor-critic using Kronecker-factored trust region (Wu et al. 2017)."""

    learning_rate: PerLearner = setting(0.25, minimum=0)
    """Initial step size, once momentum has built up (η)."""
    learning_rate_schedule: Schedule = "linear"
    """How the learning rate changes over the run; the scale of the trust region always uses the initial η."""
    schedule_boundaries: tuple[float, ...] = setting((0.5, 0.75), minimum=0, maximum=1)
    """Fractions of the run at which a piecewise schedule is divided by ten."""
    momentum: PerLearner = setting(0.9, minimum=0, below=1)
    """Momentum of the steps; a new direction enters with learning_rate * (1 - momentum)."""
    kl_target: PerLearner = setting(0.01, minimum=0)
    """Trust region of a step (δ): 0.01 in the tables of the MCPO paper, 0.001 in widely used code."""
    damping: PerLearner = setting(0.01, minimum=1e-8)
    """Added to the eigenvalues of the Fisher information (λ)."""
    statistics_decay: PerLearner = setting(0.99, minimum=0, maximum=1)
    """Decay of the running averages of the Kronecker factors, per iteration."""
    eigen_interval: int = setting(10, minimum=1)
    """Iterations between eigendecompositions of the Kronecker factors."""
    value_noise: PerLearner = setting(1.0, minimum=0)
    """Standard deviation of the sampled values in the Fisher information."""
    discount: float = setting(0.99, minimum=0, maximum=1)
    """Discount factor γ."""
    gae_lambda: PerLearner = setting(0.95, minimum=0, maximum=1)
    """λ of generalized advantage estimation."""
    value_cost: PerLearner = setting(0.5, minimum=0)
    """Weight of the value loss (c₁)."""
    entropy_cost: PerLearner = setting(0.01, minimum=0)
    """Weight of the entropy bonus (c₂)."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> ACKTRState:
        policy = architecture_of(self, spec).init(key)
        require_factors(policy.architecture)
        return ACKTRState(policy, jnp.zeros_like(policy.parameters), KroneckerFactors.init(policy.architecture))

    def update(
        self, state: ACKTRState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[ACKTRState, Metrics]:
        """Estimate F, then take one step.

        The interval of the decompositions depends on the iteration number and not on a counter in the state: the number
        is the same for all seeds, so the conditional remains a conditional when the update is mapped over seeds. A
        learner whose first updates were skipped, because they were not finite, waits for the next decomposition.
        """
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        curvature = self._estimate(state, batch, progress, key)
        gradient, metrics = jax.grad(self._loss, has_aux=True)(state.policy, batch)
        direction = curvature.precondition(gradient, self.damping)
        scale = trust_region_scale(direction, gradient.parameters, self.learning_rate, self.kl_target)
        scale = jnp.where(curvature.is_decomposed, scale, 0.0)

        velocity = self.momentum * state.velocity + scale * direction
        factor = schedule_factor(self.learning_rate_schedule, progress, self.schedule_boundaries)
        learning_rate = self.learning_rate * factor
        parameters = state.policy.parameters - learning_rate * (1 - self.momentum) * velocity
        policy = Policy(parameters, state.policy.architecture)

        new, _ = policy.batch(batch.observation)
        return ACKTRState(policy, velocity, curvature), metrics | {
            "train/approx_kl": mean_kl(batch.old_distribution, new, batch.weight),
            "train/explained_variance": explained_variance(batch.old_value, batch.value_target, batch.weight),
            "train/gradient_norm": jnp.linalg.norm(gradient.parameters),
            "train/learning_rate": jnp.asarray(learning_rate, jnp.float32),
            "train/trust_region_scale": scale,
        }

    def _estimate(self, state: ACKTRState, batch: Batch, progress: Progress, key: Key[Array, ""]) -> KroneckerFactors:
        """Update F with this rollout."""
        noise = self.value_noise * jax.random.normal(key, batch.weight.shape)
        factors = fisher_factors(state.policy, batch.observation, batch.action, noise, batch.weight)
        averaged = state.curvature.average(factors, self.statistics_decay)
        return averaged.decompose(progress.iteration % self.eigen_interval == 0)

    def _loss(self, policy: Policy, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """L, with the advantage G - V, which is not standardized and receives no gradient."""
        distribution, value = policy.batch(batch.observation)
        advantage = stop_gradient(batch.value_target - value)
        gain = expectation(advantage * distribution.log_prob(batch.action), batch.weight)
        value_loss = squared_error(value, batch.value_target, batch.weight)
        entropy = mean_entropy(distribution, batch.weight)
        loss = -gain + self.value_cost * value_loss - self.entropy_cost * entropy
        return loss, {
            "train/loss": loss,
            "train/policy_gradient_loss": -gain,
            "train/value_loss": value_loss,
            "train/entropy_loss": -entropy,
        }
