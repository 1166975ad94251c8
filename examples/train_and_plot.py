"""Train PPO on CartPole with three seeds, plot the learning curve and evaluate an agent.

python examples/train_and_plot.py [STEPS]
"""

import sys

import trustax as tx

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
algorithm = tx.PPO(num_epochs=4, num_minibatches=8)
result = tx.train(algorithm, "CartPole-v1", total_timesteps=steps, num_seeds=3, num_envs=8, horizon=128)
result.plot("curve.png")  # mean and spread over the seeds
print(result)

agent = result.agent(learner=0)
print(tx.evaluate(agent, "CartPole-v1", num_episodes=10))
agent.save("cartpole.agent")
