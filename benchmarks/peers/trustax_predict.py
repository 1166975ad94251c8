"""Measures how long an agent of Trustax takes to predict the action for one observation.

usage: trustax_predict.py SETTINGS        one JSON object
"""

import gymnasium
import jax
from measurement import median_microseconds, read_settings, report

import trustax as tx
from trustax.envs.gymnasium_spaces import spec_of
from trustax.networks import Architecture

settings = read_settings()
environment = gymnasium.make(settings.env_id)
spec = spec_of(settings.env_id, environment.observation_space, environment.action_space)
agent = tx.Agent(Architecture(spec, tuple(settings.hidden_sizes)).init(jax.random.key(0)))
observation, _ = environment.reset(seed=0)
report(
    settings,
    ["trustax", "jax"],
    microseconds={
        name: median_microseconds(lambda d=d: agent.predict(observation, deterministic=d), settings.calls)
        for name, d in (("deterministic", True), ("sampled", False))
    },
)
