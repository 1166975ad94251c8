"""Stop a run in the middle, resume it, and evaluate what it has learned.

python examples/resume_and_evaluate.py [STEPS]
"""

import sys

import trustax as tx

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
algorithm = tx.PPO(num_epochs=4, num_minibatches=8)
settings = {"total_timesteps": steps, "num_seeds": 3, "num_envs": 8, "horizon": 128, "run_dir": "runs/resumed"}


def stop_in_the_middle(iteration):
    return iteration.timesteps >= steps // 2


# With resume=True, a run that does not exist yet is started.
result = tx.train(algorithm, "CartPole-v1", **settings, resume=True, callbacks=[stop_in_the_middle])
print(f"stopped after {result.records[-1]['time/total_timesteps']:,} steps")
result = tx.train(algorithm, "CartPole-v1", **settings, resume=True)
print(f"ended after {result.records[-1]['time/total_timesteps']:,} steps")

for learner in range(3):
    print(tx.evaluate(tx.load("runs/resumed", learner=learner), "CartPole-v1", num_episodes=10))
