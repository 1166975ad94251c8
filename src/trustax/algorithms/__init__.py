"""The algorithms, one file each; `base` defines their interface."""

from dataclasses import is_dataclass

from trustax.algorithms.acktr import ACKTR
from trustax.algorithms.base import Algorithm
from trustax.algorithms.kl_adaptive import KLAdaptive
from trustax.algorithms.kl_fixed import KLFixed
from trustax.algorithms.mcpo.mcpo import MCPO
from trustax.algorithms.mdpo import MDPO
from trustax.algorithms.ppo import PPO
from trustax.algorithms.trgppo import TRGPPO
from trustax.algorithms.trpo import TRPO
from trustax.algorithms.vmpo import VMPO
from trustax.errors import TrustaxError
from trustax.settings import Registry

BUILTIN: dict[str, type] = {
    "mcpo": MCPO,
    "ppo": PPO,
    "kl-fixed": KLFixed,
    "kl-adaptive": KLAdaptive,
    "mdpo": MDPO,
    "vmpo": VMPO,
    "trpo": TRPO,
    "trgppo": TRGPPO,
    "acktr": ACKTR,
}

ALGORITHMS: Registry[type] = Registry("algorithm", "trustax.algorithms", BUILTIN)
"""Every method by its name on the command line and in files; `trustax.algorithms` is the entry-point group."""


def register_algorithm(name: str, algorithm: type) -> None:
    """Give an algorithm a name, so that the command line, `run.json` and `resume` know it.

    `algorithm` is a frozen dataclass with the methods of `Algorithm`.
    """
    members = {*dir(algorithm), *getattr(algorithm, "__dataclass_fields__", {})}
    if not isinstance(algorithm, type) or not is_dataclass(algorithm) or not {"discount", "init", "update"} <= members:
        raise TrustaxError(f"an algorithm is a dataclass with discount, init and update, not {algorithm!r}")
    ALGORITHMS.register(name, algorithm)


def name_of(algorithm: Algorithm) -> str:
    """The name under which an algorithm is registered.

    >>> name_of(PPO())
    'ppo'
    """
    if (name := ALGORITHMS.name_of(type(algorithm))) is not None:
        return name
    own = type(algorithm).__name__
    raise TrustaxError(f"{own} has no name yet; give it one: trustax.register_algorithm('my-method', {own})")


__all__ = [
    "ACKTR",
    "ALGORITHMS",
    "MCPO",
    "MDPO",
    "PPO",
    "TRGPPO",
    "TRPO",
    "VMPO",
    "Algorithm",
    "KLAdaptive",
    "KLFixed",
    "name_of",
    "register_algorithm",
]
