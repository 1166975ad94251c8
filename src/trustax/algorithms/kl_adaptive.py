"""Policy optimization with a KL penalty that adapts to a target.

    maximize over θ   Ê[τ(θ) A] - β Ê[KL(π_old‖π_θ)]

After each iteration d = Ê[KL(π_old‖π_θ)] is measured on the whole rollout: β is halved if d < d_targ / 1.5 and doubled
if d > 1.5 d_targ. d is always exact; `kl_estimator` changes the penalty only.

Schulman, Wolski, Dhariwal, Radford, Klimov: Proximal Policy Optimization Algorithms. 2017. arXiv:1707.06347, section 4
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, evaluate, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.networks import Policy
from trustax.ops.objectives import KLEstimator, adapt_kl_cost, kl_to_old, mean_kl
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout


class KLAdaptiveState(eqx.Module):
    learner: ActorCritic
    kl_cost: Float[Array, ""]
    """β"""

    @property
    def policy(self) -> Policy:
        return self.learner.policy


@dataclass(frozen=True, kw_only=True)
class KLAdaptive(FirstOrder):
    """Policy optimization with a KL penalty that adapts to a target (Schulman et al. 2017)."""

    kl_target: PerLearner = setting(0.01, minimum=0)
    """The KL divergence between old and new policy that β adapts to (d_targ)."""
    initial_kl_cost: PerLearner = setting(1.0, minimum=0)
    """Weight of the KL divergence in the first iteration (β)."""
    kl_estimator: KLEstimator = "exact"
    """Compute the KL divergence exactly, or estimate it from the taken actions: with r = π/π_old, k1 is -log r,
    k2 is (log r)²/2, and k3 is r - 1 - log r."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> KLAdaptiveState:
        return KLAdaptiveState(init_actor_critic(self, key, spec), jnp.array(self.initial_kl_cost, jnp.float32))

    def update(
        self, state: KLAdaptiveState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[KLAdaptiveState, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)

        def objective(
            new: Evaluation, batch: Batch, remaining: Float[Array, ""]
        ) -> tuple[Float[Array, " batch"], Metrics]:
            distance = kl_to_old(new.distribution, batch.old_distribution, batch.action, self.kl_estimator)
            return new.ratio * batch.advantage - state.kl_cost * distance, {}

        learner, metrics = improve(self, objective, state.learner, batch, progress, key)
        kl = mean_kl(batch.old_distribution, evaluate(learner.policy, batch).distribution, batch.weight)
        kl_cost = adapt_kl_cost(state.kl_cost, kl, self.kl_target)
        return KLAdaptiveState(learner, kl_cost), metrics | {"train/kl_cost": state.kl_cost}
