"""Train PPO on an environment of your own, written in JAX: three functions of a state.

python examples/jax_environment.py [STEPS]
"""

import sys

import jax
import jax.numpy as jnp

import trustax as tx


class Reach:
    """Move a point in the plane to the origin, with a force and with friction."""

    spec = tx.EnvSpec((4,), tx.BoxActions(low=(-1.0, -1.0), high=(1.0, 1.0)))  # observations, actions
    time_limit = 60

    def reset(self, key):
        position, speed = jax.random.uniform(key, (2,), minval=-1.0), jnp.zeros(2)
        return jnp.concatenate([position, speed])

    def step(self, state, force):
        position, speed = state[:2], 0.9 * state[2:] + 0.05 * force
        position = jnp.clip(position + speed, -2.0, 2.0)
        distance = jnp.linalg.norm(position)
        state = jnp.concatenate([position, speed])
        return state, -distance, distance < 0.02  # the new state, reward, terminated

    def observe(self, state):
        return state

    def succeeded(self, state):  # optional: adds a success rate to the metrics
        return jnp.linalg.norm(state[:2]) < 0.02


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
algorithm = tx.PPO(num_epochs=4, num_minibatches=8)
result = tx.train(algorithm, Reach(), total_timesteps=steps, num_seeds=3, num_envs=16, horizon=64)
print(tx.evaluate(result.agent(), Reach(), num_episodes=20))
