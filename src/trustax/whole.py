"""Files that are there whole or not at all, whenever the process is killed."""

import os
from pathlib import Path

from trustax.errors import TrustaxError


def write_whole(path: Path, text: str) -> None:
    """Write a text in the place of the one that is there, folders included.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "notes" / "one.txt"
    >>> write_whole(path, "two lines\\n")
    >>> [file.name for file in path.parent.iterdir()]
    ['one.txt']
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        os.replace(unfinished, path)
    except OSError as error:
        raise TrustaxError(f"{path} cannot be written: {error.strerror or error}") from error
