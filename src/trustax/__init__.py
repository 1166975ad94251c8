"""Trust-region policy optimization in JAX: MCPO and the methods it is measured against.

>>> import trustax as tx
>>> result = tx.train(tx.PPO(), "CartPole-v1", total_timesteps=16_384, num_seeds=2, quiet=True)
>>> agent = result.agent(learner=0)
>>> len(tx.evaluate(agent, "CartPole-v1", num_episodes=3).returns)
3
"""

__version__ = "0.1.0"

from trustax.agent import Agent
from trustax.algorithms import (
    ACKTR,
    MCPO,
    MDPO,
    PPO,
    TRGPPO,
    TRPO,
    VMPO,
    Algorithm,
    KLAdaptive,
    KLFixed,
    register_algorithm,
)
from trustax.envs import Engine, JaxEnv, make, register_engine
from trustax.envs.check import check
from trustax.errors import TrustaxError
from trustax.evaluation import EvaluationResult, evaluate
from trustax.networks import register_network
from trustax.run import Run
from trustax.runtime.callbacks import (
    Callback,
    Evaluate,
    KeepAgents,
    Progress,
    StopAtReturn,
    StopWithoutProgress,
    register_callback,
)
from trustax.runtime.interrupt import Interrupted
from trustax.runtime.loop import Iteration
from trustax.settings import PerLearner, setting
from trustax.storage.loggers import Logger, register_logger
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
    "Engine",
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
    "PerLearner",
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
    "register_algorithm",
    "register_callback",
    "register_engine",
    "register_logger",
    "register_network",
    "setting",
    "train",
]
