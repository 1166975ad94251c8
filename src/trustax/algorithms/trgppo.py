"""Trust region-guided PPO.

    maximize over θ   Ê[min(τ(θ) A, clip(τ(θ), lₜ, uₜ) A)]

PPO with a clip range for each sample: the range of ratios that policies within a trust region {π : KL ≤ δ} around the
old policy can reach. Unlikely actions get a wider range, which leaves room for exploration. The module
`trustax.ops.clip_ranges` computes the ranges.

Wang, He, Tan, Gan: Trust Region-Guided Proximal Policy Optimization. NeurIPS 2019. arXiv:1901.10314
"""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.ops.clip_ranges import categorical_bounds, gaussian_bounds
from trustax.ops.distributions import DiagonalGaussian
from trustax.ops.objectives import clipped_gain
from trustax.settings import setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout


@dataclass(frozen=True, kw_only=True)
class TRGPPO(FirstOrder):
    """Trust region-guided PPO (Wang et al. 2019)."""

    clip_range: float = setting(0.2, minimum=0)
    """Continuous actions: the smallest upper clip range (ε), which determines the size of the trust region."""
    kl_radius: float = setting(0.001, minimum=0)
    """Discrete actions: the trust region (δ); the clip ranges decay linearly over the run."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> ActorCritic:
        return init_actor_critic(self, key, spec)

    def update(
        self, state: ActorCritic, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        batch = dataclasses.replace(batch, extra=self._bounds(batch, progress))
        return improve(self, self._objective, state, batch, progress, key)

    def _bounds(self, batch: Batch, progress: Progress) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """lₜ and uₜ, which depend only on the old policy; several choices count as one joint choice."""
        old = batch.old_distribution
        if isinstance(old, DiagonalGaussian):
            return gaussian_bounds((batch.action - old.mean) * jnp.exp(-old.log_std), self.clip_range)
        lower, upper = categorical_bounds(jnp.exp(batch.old_log_prob), self.kl_radius)
        return 1 - (1 - lower) * progress.remaining, 1 + (upper - 1) * progress.remaining

    def _objective(
        self, new: Evaluation, batch: Batch, remaining: Float[Array, ""]
    ) -> tuple[Float[Array, " batch"], Metrics]:
        lower, upper = batch.extra
        clipped = (new.ratio < lower) | (new.ratio > upper)
        return clipped_gain(new.ratio, batch.advantage, lower, upper), {
            "train/clip_fraction": clipped.astype(jnp.float32),
            "train/clip_range": upper - 1,
        }
