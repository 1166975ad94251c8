"""One file a method; `base` is the contract they all keep."""

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
"""Every method by the name it has on the command line and in files."""


def name_of(algorithm: Algorithm) -> str:
    """The name under which an algorithm is listed.

    >>> name_of(PPO())
    'ppo'
    """
    for name, kind in ALGORITHMS.items():
        if type(algorithm) is kind:
            return name
    own = type(algorithm).__name__
    raise TrustaxError(f"{own} has no name yet; give it one: trustax.algorithms.ALGORITHMS['my-method'] = {own}")


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
