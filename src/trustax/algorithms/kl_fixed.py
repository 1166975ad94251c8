"""Policy optimization with a fixed KL penalty.

    maximize over θ   Ê[τ(θ) A] - β Ê[KL(π_old‖π_θ)]

The penalty takes the place of a trust region: β is the cost of one nat of distance from the old policy. PPO's paper
and PPO-based code bases differ in how they compute the KL divergence: in closed form, or from the log-probabilities of
the taken actions alone (`kl_estimator`).

Schulman, Wolski, Dhariwal, Radford, Klimov: Proximal Policy Optimization Algorithms. 2017. arXiv:1707.06347, section 4
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.ops.objectives import KLEstimator, kl_to_old
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout


@dataclass(frozen=True, kw_only=True)
class KLFixed(FirstOrder):
    """Policy optimization with a fixed KL penalty (Schulman et al. 2017)."""

    kl_cost: PerLearner = setting(0.1, minimum=0)
    """Weight of the KL divergence between old and new policy (β)."""
    kl_estimator: KLEstimator = "exact"
    """Compute the KL divergence exactly, or estimate it from the taken actions: with r = π/π_old, k1 is -log r,
    k2 is (log r)²/2, and k3 is r - 1 - log r."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> ActorCritic:
        return init_actor_critic(self, key, spec)

    def update(
        self, state: ActorCritic, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        return improve(self, self._objective, state, batch, progress, key)

    def _objective(
        self, new: Evaluation, batch: Batch, remaining: Float[Array, ""]
    ) -> tuple[Float[Array, " batch"], Metrics]:
        distance = kl_to_old(new.distribution, batch.old_distribution, batch.action, self.kl_estimator)
        return new.ratio * batch.advantage - self.kl_cost * distance, {}
