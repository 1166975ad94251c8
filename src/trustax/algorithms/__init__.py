"""The algorithms, one file each; `base` defines their interface."""

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

ALGORITHMS: dict[str, type] = {
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
"""All algorithms, by their names on the command line and in files."""


def name_of(algorithm: Algorithm) -> str:
    """The name of an algorithm in `ALGORITHMS`.

    >>> name_of(PPO())
    'ppo'
    """
    for name, registered in ALGORITHMS.items():
        if type(algorithm) is registered:
            return name
    kind = type(algorithm).__name__
    raise TrustaxError(f"{kind} has no name yet; give it one: trustax.algorithms.ALGORITHMS['my-method'] = {kind}")


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
]
