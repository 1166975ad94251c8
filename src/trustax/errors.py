"""The one exception that a user's mistake raises."""

import difflib
from collections.abc import Iterable


class TrustaxError(Exception):
    """What was expected, what came and what to do, in one line.

    The command line prints it without a traceback and leaves with exit code 2.
    """


def similar_or_all(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.4) -> str:
    """The end of an error about a name that nothing has: what it is like, or else everything there is.

    >>> similar_or_all("hoper", ["hopper", "ant"])
    'did you mean hopper?'
    """
    known = list(known)
    similar = difflib.get_close_matches(name, known, n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(similar)}?" if similar else f"there is {', '.join(known)}"
