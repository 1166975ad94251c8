"""A sweep over learning rates with three seeds each; the same call continues it after an interruption.

python examples/sweep.py [STEPS]
"""

import sys

from rich import print

import trustax as tx

if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    result = tx.sweep(
        "ppo",
        "CartPole-v1",
        folder="sweep",
        total_timesteps=steps,
        num_seeds=3,
        num_envs=8,
        horizon=128,
        num_epochs=4,
        num_minibatches=8,
        learning_rate=[3e-4, 1e-3, 3e-3],
    )
    print(result.table())
    result.plot("sweep.png")
