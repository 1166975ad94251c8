"""Mirror descent policy optimization, on-policy.

    maximize over θ   Ê[τ(θ) A] - β Ê[KL(π_θ‖π_old)]

The KL divergence is taken from the new policy to the old one, in the opposite direction to the KL penalties of PPO's
paper. In the MCPO paper, β falls from β₀ to 0 over the run. In MDPO's own code the step size falls instead, so the
weight 1/(β₀ (1 - k/K)) grows. `schedule` chooses between the two.

Tomar, Shani, Efroni, Ghavamzadeh: Mirror Descent Policy Optimization. ICLR 2022. arXiv:2005.09814
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.ops.objectives import KLEstimator, kl_to_old
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

KL_COST_LIMIT = 1e3
"""Upper limit of the weight in the original schedule, which divides by almost 0 at the end of a run."""


@dataclass(frozen=True, kw_only=True)
class MDPO(FirstOrder):
    """Mirror descent policy optimization (Tomar et al. 2022)."""

    kl_cost: PerLearner = setting(0.5, minimum=0)
    """β₀, which sets the weight of the KL divergence."""
    schedule: Literal["paper", "original"] = "paper"
    """The weight falls from β₀ to 0, update by update (MCPO's paper), or grows from 1/β₀, iteration by iteration."""
    kl_estimator: KLEstimator = "exact"
    """Compute the KL divergence exactly, or estimate it from the taken actions: with r = π/π_old, k1 is r log r,
    k2 is (log r)²/2, and k3 is r log r - r + 1."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> ActorCritic:
        return init_actor_critic(self, key, spec)

    def update(
        self, state: ActorCritic, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)

        def objective(
            new: Evaluation, batch: Batch, remaining: Float[Array, ""]
        ) -> tuple[Float[Array, " batch"], Metrics]:
            growing = jnp.minimum(1 / (self.kl_cost * progress.remaining), KL_COST_LIMIT)
            kl_cost = self.kl_cost * remaining if self.schedule == "paper" else growing
            distance = kl_to_old(
                new.distribution, batch.old_distribution, batch.action, self.kl_estimator, reverse=True
            )
            gain = new.ratio * batch.advantage - kl_cost * distance
            return gain, {"train/kl_cost": jnp.asarray(kl_cost)}

        return improve(self, objective, state, batch, progress, key)
