"""A network of your own: sines and cosines of learned mixtures of the observation, then two linear heads.

python examples/own_network.py [STEPS]
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp

import trustax as tx
from trustax.networks import action_distribution, log_std_for


class Waves(eqx.Module):
    """Actor and critic on sines and cosines of the observation."""

    frequencies: eqx.nn.Linear
    actor: eqx.nn.Linear
    critic: eqx.nn.Linear
    log_std: jax.Array | None
    actions: object = eqx.field(static=True)

    def __call__(self, observation):
        phase = self.frequencies(observation)
        features = jnp.concatenate([jnp.sin(phase), jnp.cos(phase)])
        return action_distribution(self.actions, self.actor(features), self.log_std), self.critic(features)[0]


def waves(key, spec, *, hidden_sizes=(64, 64), initial_log_std=0.0):
    first, second, third = jax.random.split(key, 3)
    width = hidden_sizes[0]
    return Waves(
        eqx.nn.Linear(spec.observation_size, width, key=first),
        eqx.nn.Linear(2 * width, spec.actions.num_outputs, key=second),
        eqx.nn.Linear(2 * width, 1, key=third),
        log_std_for(spec.actions, initial_log_std),
        spec.actions,
    )


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
tx.register_network("waves", waves)
algorithm = tx.PPO(network="waves", hidden_sizes=(64,), num_epochs=4, num_minibatches=8)
result = tx.train(algorithm, "CartPole-v1", total_timesteps=steps, num_seeds=3, num_envs=8, horizon=128)
print(result.agent().policy.architecture.network, tx.evaluate(result.agent(), "CartPole-v1", num_episodes=10))
