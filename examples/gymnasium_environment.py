"""Train PPO on an environment of your own, written for Gymnasium.

python examples/gymnasium_environment.py [STEPS]
"""

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

import trustax as tx


class Thermostat(gymnasium.Env):
    """Keep a room at 21 °C while the weather changes; heating costs a little."""

    observation_space = spaces.Box(-20.0, 60.0, (2,), np.float32)
    action_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # all random numbers come from self.np_random
        self.room, self.outside = self.np_random.uniform(10, 18), self.np_random.uniform(-5, 10)
        return self.observe(), {}

    def step(self, action):
        heating = float(np.clip(action[0], 0, 1))
        self.outside = float(np.clip(self.outside + self.np_random.normal(0, 0.5), -15, 20))
        warmer = 3 * heating + 0.1 * (self.outside - self.room)
        self.room = float(np.clip(self.room + warmer, -20, 60))
        reward = -abs(self.room - 21) - 0.1 * heating
        return self.observe(), reward, False, False, {}

    def observe(self):
        return np.array([self.room, self.outside], np.float32)


def make_thermostat():
    return gymnasium.wrappers.TimeLimit(Thermostat(), max_episode_steps=48)  # a time limit truncates, it does not end


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
for finding in tx.check(make_thermostat):
    print(finding)

algorithm = tx.PPO(num_epochs=4, num_minibatches=8)
result = tx.train(algorithm, make_thermostat, total_timesteps=steps, num_seeds=2, num_envs=8, horizon=96)
print(tx.evaluate(result.agent(), make_thermostat, num_episodes=10))
