"""Failures of environments, described in one line with their location in the user's code.

Worker processes import this module without the rest of Trustax, so its imports of Trustax are relative.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import TrustaxError

LIBRARY_PATHS = (str(Path(__file__).parents[1]), "site-packages")
"""Parts of the paths of Trustax and of installed packages."""


class FaultyEnvError(Exception):
    """An environment raised an exception or returned something wrong; `index` is its number among the copies."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index


@contextmanager
def failures_of(index: int, function: str) -> Iterator[None]:
    """Turn any exception from a function of an environment into a `FaultyEnvError`.

    `sys.exit` counts as an exception: an environment must not end the training.
    """
    try:
        yield
    except (FaultyEnvError, TrustaxError):
        raise
    except (Exception, SystemExit) as error:
        raise FaultyEnvError(index, f"{function} raised {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Describe an exception in one line, with the location in the user's code where it was raised.

    >>> describe(ValueError("that is too much"))
    'ValueError: that is too much'
    """
    raised = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in raised if not any(part in frame.filename for part in LIBRARY_PATHS)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {one_line(error)}{place}"


def one_line(value: Any) -> str:
    """The string of a value, shortened to one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]} …"
