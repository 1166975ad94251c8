"""Measures how long Stable-Baselines3's PPO takes to predict the action for one observation.

usage: sb3_predict.py SETTINGS        one JSON object
"""

from measurement import median_microseconds, read_settings, report
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

settings = read_settings()
environment = make_vec_env(settings.env_id, 1, seed=0)
sizes = {"pi": settings.hidden_sizes, "vf": settings.hidden_sizes}
model = PPO("MlpPolicy", environment, policy_kwargs={"net_arch": sizes}, seed=0, device="cpu")
observation = environment.reset()[0]
report(
    settings,
    ["stable-baselines3", "torch"],
    microseconds={
        name: median_microseconds(lambda d=d: model.predict(observation, deterministic=d), settings.calls)
        for name, d in (("deterministic", True), ("sampled", False))
    },
)
