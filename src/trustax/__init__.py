"""Trust-region policy optimization in JAX: MCPO and the methods that its paper compares it with.

>>> import trustax as tx
>>> result = tx.train(tx.PPO(), "CartPole-v1", total_timesteps=8_192, num_seeds=2, quiet=True)
>>> agent = result.agent(learner=0)
>>> len(tx.evaluate(agent, "CartPole-v1", num_episodes=3).returns)
3
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
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
    from trustax.plotting.record import record
    from trustax.run import Run
    from trustax.runtime.callbacks import (
        Callback,
        Evaluate,
        KeepAgents,
        PrintProgress,
        StopAtReturn,
        StopWithoutProgress,
        register_callback,
    )
    from trustax.runtime.distributed import Distributed
    from trustax.runtime.interrupt import Interrupted
    from trustax.runtime.iteration import Iteration
    from trustax.runtime.result import Result
    from trustax.settings import PerLearner, setting
    from trustax.storage import zoo as zoo
    from trustax.storage.journal import read_records
    from trustax.storage.loading import load
    from trustax.storage.loggers import Logger, register_logger
    from trustax.sweeps.ranges import Range
    from trustax.sweeps.results import SweepResult
    from trustax.sweeps.sweep import sweep
    from trustax.sweeps.tuning import tune
    from trustax.sweeps.tuning_results import TuningResult
    from trustax.training import iterations, train
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
    "Distributed",
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
    "PrintProgress",
    "Range",
    "Result",
    "Run",
    "StopAtReturn",
    "StopWithoutProgress",
    "SweepResult",
    "TrustaxError",
    "TuningResult",
    "check",
    "evaluate",
    "iterations",
    "load",
    "make",
    "read_records",
    "record",
    "register_algorithm",
    "register_callback",
    "register_engine",
    "register_logger",
    "register_network",
    "setting",
    "sweep",
    "train",
    "tune",
]

_NAMES = {
    "trustax.agent": "Agent",
    "trustax.algorithms": "ACKTR MCPO MDPO PPO TRGPPO TRPO VMPO Algorithm KLAdaptive KLFixed register_algorithm",
    "trustax.envs": "Engine JaxEnv make register_engine",
    "trustax.envs.check": "check",
    "trustax.errors": "TrustaxError",
    "trustax.evaluation": "EvaluationResult evaluate",
    "trustax.networks": "register_network",
    "trustax.plotting.record": "record",
    "trustax.run": "Run",
    "trustax.runtime.callbacks": "Callback Evaluate KeepAgents PrintProgress StopAtReturn StopWithoutProgress "
    "register_callback",
    "trustax.runtime.distributed": "Distributed",
    "trustax.runtime.interrupt": "Interrupted",
    "trustax.runtime.iteration": "Iteration",
    "trustax.runtime.result": "Result",
    "trustax.settings": "PerLearner setting",
    "trustax.storage.journal": "read_records",
    "trustax.storage.loggers": "Logger register_logger",
    "trustax.storage.loading": "load",
    "trustax.sweeps.ranges": "Range",
    "trustax.sweeps.results": "SweepResult",
    "trustax.sweeps.sweep": "sweep",
    "trustax.sweeps.tuning": "tune",
    "trustax.sweeps.tuning_results": "TuningResult",
    "trustax.training": "iterations train",
    "trustax.types": "BoxActions DiscreteActions EnvSpec MultiDiscreteActions",
}
"""The modules that define these names. They are imported on first use, so that `import trustax` does not import JAX."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = (
    *("agent", "algorithms", "envs", "errors", "evaluation", "networks", "ops", "run", "runtime", "settings"),
    *("storage", "sweeps", "training", "types"),
)
_SHORT = {"zoo": "trustax.storage.zoo"}
"""Modules that are used often, by their short names."""

if not TYPE_CHECKING:  # type checkers read the imports above, and would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _MODULES:
            found = getattr(import_module(_MODULES[name]), name)
        elif name in _SUBMODULES:
            found = import_module(f"trustax.{name}")
        elif name in _SHORT:
            found = import_module(_SHORT[name])
        else:
            raise AttributeError(f"module 'trustax' has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted([*__all__, *_SUBMODULES, *_SHORT, "__version__"])
