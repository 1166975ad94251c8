"""The processes of a distributed run as threads of one process."""

import errno
import random
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from trustax.runtime.interrupt import Interrupted

PATIENCE = 600.0


def free_port() -> int:
    """A free port below those that systems give to connections, so that no connection takes it before its server."""
    for port in random.SystemRandom().sample(range(10_000, 30_000), 100):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("no port is free")


def in_threads(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call all functions at the same time; what they return or raise.

    A process that has lost another one is ended after a while, if it is busy. Threads must not end the process of the
    tests, so they may be busy for longer.
    """
    answers: list[Any] = [None] * len(functions)

    def call(number: int) -> None:
        try:
            answers[number] = functions[number]()
        except (Exception, Interrupted) as error:
            answers[number] = error

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(len(functions))]
    with patch("trustax.runtime.link.GRACE_SECONDS", PATIENCE), patch("trustax.runtime.link.SILENCE_SECONDS", PATIENCE):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE)
    assert not any(thread.is_alive() for thread in threads), answers
    return answers
