"""One file a method; `base` is the contract they all keep."""

from trustax.algorithms.base import Algorithm
from trustax.algorithms.mcpo import MCPO
from trustax.algorithms.ppo import PPO

ALGORITHMS: dict[str, type] = {"mcpo": MCPO, "ppo": PPO}
"""Every method by the name it has on the command line and in files."""


def name_of(algorithm: Algorithm) -> str:
    """The name under which an algorithm is listed.

    >>> name_of(PPO())
    'ppo'
    """
    return next(name for name, kind in ALGORITHMS.items() if type(algorithm) is kind)


__all__ = ["ALGORITHMS", "MCPO", "PPO", "Algorithm", "name_of"]
