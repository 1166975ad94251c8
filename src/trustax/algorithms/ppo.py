"""Proximal policy optimization with a clipped objective.

    maximize over θ   Ê[min(τ(θ) A, clip(τ(θ), 1-ε, 1+ε) A)]

The ratio τ = π_θ(a|s) / π_old(a|s) gains nothing by leaving [1-ε, 1+ε]: a trust region without an explicit distance.

Schulman, Wolski, Dhariwal, Radford, Klimov: Proximal Policy Optimization Algorithms. 2017. arXiv:1707.06347
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.batch import Batch, Evaluation, make_batch
from trustax.algorithms.first_order import ActorCritic, FirstOrder, improve, init_actor_critic
from trustax.ops.objectives import clipped_gain
from trustax.ops.schedules import Schedule, schedule_factor
from trustax.settings import PerLearner, setting
from trustax.types import EnvSpec, Metrics, Progress, Rollout


@dataclass(frozen=True, kw_only=True)
class PPO(FirstOrder):
    """Proximal policy optimization with a clipped objective (Schulman et al. 2017)."""

    clip_range: PerLearner = setting(0.2, minimum=0)
    """Clip range of the ratio of new to old probability (ε)."""
    clip_range_schedule: Schedule = "constant"
    """How the clip range changes over the run."""
    can_divide_envs: ClassVar[bool] = True

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> ActorCritic:
        return init_actor_critic(self, key, spec)

    def update(
        self, state: ActorCritic, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        factor = schedule_factor(self.clip_range_schedule, progress, self.schedule_boundaries)
        return improve(self, partial(self._objective, factor=factor), state, batch, progress, key)

    def _objective(
        self, new: Evaluation, batch: Batch, remaining: Float[Array, ""], factor: Any = 1.0
    ) -> tuple[Float[Array, " batch"], Metrics]:
        clip_range = self.clip_range * factor
        lower, upper = 1 - clip_range, 1 + clip_range
        clipped = jnp.abs(new.ratio - 1) > clip_range
        metrics = {"train/clip_fraction": clipped.astype(jnp.float32)}
        return clipped_gain(new.ratio, batch.advantage, lower, upper), metrics
