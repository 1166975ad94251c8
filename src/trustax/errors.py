"""The exception for user errors."""

import difflib
from collections.abc import Iterable


class TrustaxError(Exception):
    """A user error. Its message says in one line what was expected, what was given and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


def similar_or_all(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.4) -> str:
    """A hint for the error message about an unknown name: similar known names, or all of them if none is similar.

    >>> similar_or_all("hoper", ["hopper", "ant"])
    'did you mean hopper?'
    """
    known = list(known)
    similar = difflib.get_close_matches(name, known, n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(similar)}?" if similar else f"choose one of {', '.join(known)}"
