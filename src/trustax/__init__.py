"""Trust-region policy optimisation in JAX: MCPO and the methods it is measured against.

>>> import trustax as tx
>>> result = tx.train(tx.PPO(), "CartPole-v1", total_timesteps=16_384, num_seeds=2, quiet=True)
>>> agent = result.agent(seed=0)
>>> len(tx.evaluate(agent, "CartPole-v1", num_episodes=3).returns)
3
"""

__version__ = "0.1.0"

from trustax.agent import Agent, load
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
from trustax.errors import TrustaxError
from trustax.evaluation import EvaluationResult, evaluate
from trustax.networks import register_network
from trustax.run import Run
from trustax.runtime.interrupt import Interrupted
from trustax.settings import PerLearner, setting
from trustax.storage.run_directory import load_agent
from trustax.training import Result, train, train_run
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
    "DiscreteActions",
    "Engine",
    "EnvSpec",
    "EvaluationResult",
    "Interrupted",
    "JaxEnv",
    "KLAdaptive",
    "KLFixed",
    "MultiDiscreteActions",
    "PerLearner",
    "Result",
    "Run",
    "TrustaxError",
    "evaluate",
    "load",
    "load_agent",
    "make",
    "register_algorithm",
    "register_engine",
    "register_network",
    "setting",
    "train",
    "train_run",
]
