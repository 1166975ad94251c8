"""Trust-region policy optimisation in JAX: MCPO and the methods it is measured against.

>>> import trustax as tx
>>> result = tx.train(tx.PPO(), "CartPole-v1", total_timesteps=16_384, num_seeds=2, quiet=True)
>>> agent = result.agent(learner=0)
>>> len(tx.evaluate(agent, "CartPole-v1", num_episodes=3).returns)
3
"""

__version__ = "0.1.0"

from trustax.agent import Agent
from trustax.algorithms import ACKTR, MCPO, MDPO, PPO, TRGPPO, TRPO, VMPO, Algorithm, KLAdaptive, KLFixed
from trustax.envs import make
from trustax.envs.check import check
from trustax.envs.jax_env import JaxEnv
from trustax.errors import TrustaxError
from trustax.evaluation import EvaluationResult, evaluate
from trustax.run import Run
from trustax.runtime.callbacks import Callback, Evaluate, KeepAgents, Progress, StopAtReturn, StopWithoutProgress
from trustax.runtime.interrupt import Interrupted
from trustax.runtime.loop import Iteration
from trustax.storage.loggers import Logger
from trustax.storage.run_directory import load
from trustax.training import Result, iterations, train
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

__all__ = [
    "ACKTR",
    "MCPO",
    "MDPO",
    "PPO",
    "TRGPPO",
    "TRPO",
    "VMPO",
    "Agent",
    "Algorithm",
    "BoxActions",
    "Callback",
    "DiscreteActions",
    "EnvSpec",
    "Evaluate",
    "EvaluationResult",
    "Interrupted",
    "Iteration",
    "JaxEnv",
    "KLAdaptive",
    "KLFixed",
    "KeepAgents",
    "Logger",
    "MultiDiscreteActions",
    "Progress",
    "Result",
    "Run",
    "StopAtReturn",
    "StopWithoutProgress",
    "TrustaxError",
    "check",
    "evaluate",
    "iterations",
    "load",
    "make",
    "train",
]
