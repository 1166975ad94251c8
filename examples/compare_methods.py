"""Compare two methods on CartPole with error bars: three seeds each, and a 95% interval of the mean.

python examples/compare_methods.py [STEPS]
"""

import sys

import numpy as np

import trustax as tx
from trustax.plotting.curves import plot_curves
from trustax.sweeps.statistics import mean_interval

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
shared = {"num_epochs": 4, "num_minibatches": 8}
methods = {"MCPO": tx.MCPO(**shared), "PPO": tx.PPO(**shared)}
records = {}
for name, algorithm in methods.items():
    result = tx.train(algorithm, "CartPole-v1", total_timesteps=steps, num_seeds=3, num_envs=8, horizon=128)
    returns = np.array(result.records[-1]["rollout/ep_rew_mean"])
    low, high = mean_interval(returns)
    print(f"{name}: {returns.mean():.1f} ± {returns.std():.1f}, 95% interval of the mean [{low:.1f}, {high:.1f}]")
    records[name] = result.records
plot_curves(records, "comparison.png", title="CartPole-v1")
