"""Proximal policy optimisation with a clipped objective.

    L(θ) = Ê[min(τ(θ) A, clip(τ(θ), 1-ε, 1+ε) A)]

The ratio τ = π_θ(a|s) / π_old(a|s) earns nothing by leaving [1-ε, 1+ε]: a trust region without a distance.

Schulman, Wolski, Dhariwal, Radford, Klimov: Proximal Policy Optimization Algorithms. 2017. arXiv:1707.06347
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from trustax.algorithms.base import (
    Batch,
    Evaluation,
    FirstOrder,
    ascend,
    batch_metrics,
    make_batch,
)
from trustax.minimize import AdamState, adam_init, over_minibatches
from trustax.networks import Architecture, Policy
from trustax.objectives import clipped_surrogate, expectation
from trustax.types import EnvSpec, Metrics, Progress, Rollout


class PPOState(eqx.Module):
    policy: Policy
    adam: AdamState


@dataclass(frozen=True, kw_only=True)
class PPO(FirstOrder):
    """Proximal policy optimisation with a clipped objective (Schulman et al. 2017)."""

    clip_range: float = 0.2
    """ε: how far the ratio of new to old probability may move and still earn."""

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> PPOState:
        policy = Architecture(spec, self.hidden_sizes).init(key)
        return PPOState(policy, adam_init(policy))

    def update(
        self, state: PPOState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[PPOState, Metrics]:
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)
        learning_rate = self.learning_rate_at(progress)

        def step(state: PPOState, minibatch: Batch, key: Key[Array, ""]) -> tuple[PPOState, Metrics]:
            def objective(new: Evaluation) -> tuple[Float[Array, ""], Metrics]:
                return self._objective(new, minibatch)

            policy, adam, metrics = ascend(self, objective, state.policy, state.adam, minibatch, learning_rate)
            return PPOState(policy, adam), metrics

        state, metrics = over_minibatches(step, state, batch, key, self.num_epochs, self.num_minibatches)
        return state, metrics | batch_metrics(batch, learning_rate)

    def _objective(self, new: Evaluation, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        clipped = jnp.abs(new.ratio - 1) > self.clip_range
        gain = clipped_surrogate(new.ratio, batch.advantage, batch.weight, self.clip_range)
        return gain, {"train/clip_fraction": expectation(clipped.astype(jnp.float32), batch.weight)}
