"""Environments: `make` creates one with any engine, with the axes `seed env` and NEXT_STEP autoreset."""

from trustax.envs.base import CompiledEnvironment, HostAdapter, HostEnvironment
from trustax.envs.engines import ENGINES, Environment, engine_of, make
from trustax.envs.jax_env import JaxEnv
from trustax.envs.vectorize import VectorizedJaxEnv

__all__ = [
    "ENGINES",
    "CompiledEnvironment",
    "Environment",
    "HostAdapter",
    "HostEnvironment",
    "JaxEnv",
    "VectorizedJaxEnv",
    "engine_of",
    "make",
]
