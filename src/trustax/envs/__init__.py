"""Environments: `make` gives one of any engine, with the axes `seed env` and NEXT_STEP autoreset."""

from trustax.envs.base import CompiledEnvironment, HostEnvironment, Stepped
from trustax.envs.definition import Definition
from trustax.envs.engines import ENGINES, Environment, engine_of, make
from trustax.envs.native import NativeEnvironment

__all__ = [
    "ENGINES",
    "CompiledEnvironment",
    "Definition",
    "Environment",
    "HostEnvironment",
    "NativeEnvironment",
    "Stepped",
    "engine_of",
    "make",
]
