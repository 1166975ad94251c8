"""An algorithm of your own: a quadratic penalty on the ratio takes the place of PPO's clipping.

python examples/own_algorithm.py [STEPS]
"""

import sys
from dataclasses import dataclass

import jax.numpy as jnp

import trustax as tx
from trustax.algorithms.batch import make_batch
from trustax.algorithms.first_order import FirstOrder, improve, init_actor_critic


@dataclass(frozen=True, kw_only=True)
class RatioPenalty(FirstOrder):
    """Maximize Ê[τA - |A| (τ - 1)² / 2ε], whose maximum for each sample is at τ = 1 ± ε."""

    ratio_range: tx.PerLearner = tx.setting(0.2, minimum=1e-3)
    """How far the ratio of new to old probability should move (ε)."""

    def init(self, key, spec):
        return init_actor_critic(self, key, spec)

    def update(self, state, rollout, progress, key):
        batch = make_batch(state.policy, rollout, self.discount, self.gae_lambda)

        def objective(new, batch, remaining):
            penalty = jnp.abs(batch.advantage) * (new.ratio - 1) ** 2 / (2 * self.ratio_range)
            return new.ratio * batch.advantage - penalty, {"train/ratio_penalty": penalty}

        return improve(self, objective, state, batch, progress, key)


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
tx.register_algorithm("ratio-penalty", RatioPenalty)
algorithm = RatioPenalty(ratio_range=(0.1, 0.2, 0.4), num_epochs=4, num_minibatches=8)  # one value for each learner
result = tx.train(algorithm, "CartPole-v1", total_timesteps=steps, num_seeds=3, num_envs=8, horizon=128)
for value, final in zip(algorithm.ratio_range, result.records[-1]["rollout/ep_rew_mean"], strict=True):
    print(f"ε = {value}: return {final:.1f}")
