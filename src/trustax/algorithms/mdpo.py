"""Mirror descent policy optimisation, on-policy.

    maximize over θ   Ê[τ(θ) A] - β Ê[KL(π_θ‖π_old)]

The divergence is taken from the new policy to the old one, the other way round than in the KL penalties of PPO's
paper. The MCPO paper lets β fall from β₀ to 0 over the run; the original lets the step size fall, so that the weight
1/(β₀ (1 - k/K)) grows. Both are here.

Tomar, Shani, Efroni, Ghavamzadeh: Mirror Descent Policy Optimization. ICLR 2022. arXiv:2005.09814
"""

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout

KL_COST_LIMIT = 1e3
"""The original schedule ends in a division by almost nothing."""


@dataclass(frozen=True, kw_only=True)
class MDPO(FirstOrder):
    """Mirror descent policy optimisation (Tomar et al. 2022)."""

    kl_cost: PerLearner = setting(0.5, minimum=0)
    """β₀, which the weight of the KL divergence is made of."""
    schedule: Literal["paper", "original"] = "paper"
    """Falling from β₀ to 0 with every update (MCPO's paper), or 1/β₀ growing with every iteration (MDPO's code)."""

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
            distance = new.distribution.kl(batch.old_distribution)
            gain = new.ratio * batch.advantage - kl_cost * distance
            return gain, {"train/kl_cost": jnp.asarray(kl_cost)}

        return improve(self, objective, state, batch, progress, key)
