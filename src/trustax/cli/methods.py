"""The methods that the command line knows: all algorithms, and the configurations that the paper names."""

import difflib

from trustax.algorithms import ALGORITHMS, MCPO, Algorithm
from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.methods import METHODS

CONFIGURATIONS: dict[str, Algorithm] = {"mean-psi": MCPO(virtual_policy="mean")} | METHODS


def method_named(name: str) -> Algorithm:
    """A method by its name. Of the algorithms of installed packages, only the one with this name is imported.

    >>> method_named("KL Fixed β=0.1").kl_cost
    0.1
    """
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name]
    if name not in ALGORITHMS:
        known = [*ALGORITHMS, *CONFIGURATIONS]
        close = difflib.get_close_matches(name.lower(), map(str.lower, known), n=1, cutoff=0.6)
        hint = similar_or_all(name, known if close else [*ALGORITHMS, "mean-psi"], count=1, cutoff=0.6)
        note = "" if close else "; a configuration of the paper has its name there, such as 'KL Fixed β=0.1'"
        raise TrustaxError(f"there is no method {name!r}; {hint}{note}")
    return ALGORITHMS[name]()
