"""What an environment raises, told in one line: what it was, and where in the user's code."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError

NOT_THE_USERS = (str(Path(__file__).parents[1]), "site-packages")
"""What stands in the paths of our files, and of those of installed packages."""


@contextmanager
def environment_errors(name: str) -> Iterator[None]:
    """Whatever is raised in here, an environment of this name has raised."""
    try:
        yield
    except Exception as error:
        raise TrustaxError(f"{name} raised {describe(error)}; trustax check {name} plays it alone") from error


def describe(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code where it was raised.

    >>> describe(ValueError("that is too much"))
    'ValueError: that is too much'
    """
    raised = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in raised if not any(part in frame.filename for part in NOT_THE_USERS)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {brief(error)}{place}"


def brief(thing: Any) -> str:
    """What a thing says of itself, in one line that is not too long."""
    text = " ".join(str(thing).split())
    return text if len(text) <= 200 else f"{text[:200]} …"
