"""Runs Stable-Baselines3's `evaluate_policy` on our agent, in the peers' environment with Trustax installed."""

import gymnasium
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy

import trustax as tx

for env_id, steps in (("CartPole-v1", 200_000), ("Pendulum-v1", 400_000)):
    agent = tx.train(tx.PPO(), env_id, total_timesteps=steps, quiet=True).agent()
    mean, deviation = evaluate_policy(agent, gymnasium.make(env_id), n_eval_episodes=10)
    ours = tx.evaluate(agent, f"gymnasium:{env_id}", num_episodes=10)
    print(f"{env_id}: evaluate_policy {mean:.1f} ± {deviation:.1f}; trustax.evaluation {ours}")
    assert np.isfinite(mean)
