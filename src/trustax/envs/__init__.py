"""Environments: `make` creates one with any engine, with the axes `seed env` and NEXT_STEP autoreset."""

from trustax.envs.base import CompiledEnvironment, Engine, HostAdapter, HostEnvironment
from trustax.envs.engines import Environment, engine_of, make
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.jax_env import JaxEnv
from trustax.envs.registry import ENGINES, register_engine
from trustax.envs.vectorize import VectorizedJaxEnv

__all__ = [
    "ENGINES",
    "CompiledEnvironment",
    "Engine",
    "Environment",
    "GymnasiumHost",
    "HostAdapter",
    "HostEnvironment",
    "JaxEnv",
    "VectorizedJaxEnv",
    "engine_of",
    "make",
    "register_engine",
]
