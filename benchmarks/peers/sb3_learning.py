"""Trains Stable-Baselines3 with the settings of `benchmarks/parity.py`, in the peers' environment.

usage: sb3_learning.py METHOD ENV_ID TOTAL_TIMESTEPS SEED
Prints one JSON object: the mean raw return of the last 100 training episodes, and the duration in seconds.
"""

import json
import sys
import time

import numpy as np
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

METHOD, ENV_ID, STEPS, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
NUM_ENVS, HORIZON = 4, 2048
SHARED = {
    "policy": "MlpPolicy",
    "n_steps": HORIZON,
    "batch_size": 128,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "seed": SEED,
    "device": "cpu",
    "stats_window_size": 100,
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "activation_fn": torch.nn.Tanh},
}

torch.set_num_threads(1)
environments = VecNormalize(make_vec_env(ENV_ID, NUM_ENVS, seed=SEED), gamma=0.99)
if METHOD == "ppo":
    model = PPO(
        env=environments,
        learning_rate=lambda remaining: 3e-4 * remaining,
        n_epochs=10,
        clip_range=0.2,
        clip_range_vf=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        **SHARED,
    )
else:
    model = TRPO(env=environments, target_kl=0.01, cg_max_steps=10, cg_damping=0.1, **SHARED)
began = time.perf_counter()
model.learn(STEPS)
returns = [episode["r"] for episode in model.ep_info_buffer]
print(json.dumps({"return": float(np.mean(returns)), "seconds": time.perf_counter() - began}))
