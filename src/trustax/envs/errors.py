"""Describe exceptions from environments in one line, with their location in the user's code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError

LIBRARY_PATHS = (str(Path(__file__).parents[1]), "site-packages")
"""Parts of the paths of Trustax and of installed packages."""


@contextmanager
def environment_errors(name: str) -> Iterator[None]:
    """Turn any exception from the environment `name` into a TrustaxError."""
    try:
        yield
    except Exception as error:
        raise TrustaxError(f"{name} raised {describe(error)}; to test it: trustax check {name}") from error


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
