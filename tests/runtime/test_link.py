"""Messages between processes, here between threads: what they gather, and what they notice."""

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.runtime.threads import free_port, in_threads
from trustax.errors import TrustaxError
from trustax.runtime.connecting import connect
from trustax.runtime.interrupt import Interrupted
from trustax.runtime.link import Link

HOST = socket.gethostname()


def together(functions: list[Callable[[Link], Any]], settings: list[dict[str, Any]] | None = None) -> list[Any]:
    """Connect as many processes as there are functions, call each with its link; what they return or raise."""
    coordinator = f"localhost:{free_port()}"

    def call(process: int) -> Any:
        own = {"seed": 1} if settings is None else settings[process]
        with connect(coordinator, len(functions), process, own) as link:
            return functions[process](link)

    return in_threads([partial(call, process) for process in range(len(functions))])


def test_every_process_gathers_all_values_in_order() -> None:
    def talk(process: int) -> Callable[[Link], Any]:
        return lambda link: [link.gather({"process": process, "number": 0.1 + number}) for number in range(3)]

    answers = together([talk(process) for process in range(3)])
    rounds = [[{"process": process, "number": 0.1 + number} for process in range(3)] for number in range(3)]
    assert answers == [rounds] * 3


def test_a_large_value_arrives_complete() -> None:
    value = list(range(300_000))
    assert together([lambda link: link.gather(None), lambda link: link.gather(value)]) == [[None, value]] * 2


def test_a_process_that_fails_says_why_to_all() -> None:
    def fail(link: Link) -> None:
        raise TrustaxError("the disk\nis full")

    first, _, third = together([lambda link: link.gather(1), fail, lambda link: link.gather(1)])
    for error in (first, third):
        assert isinstance(error, TrustaxError)
        assert str(error) == f"process 1 on {HOST} stopped: the disk is full"


@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_dies_is_named_to_all(victim: int) -> None:
    def die(link: Link) -> None:
        link._closed.set()  # a dead process does not tell the others that it has lost connections
        for peer in link._peers:
            peer.socket.shutdown(socket.SHUT_RDWR)
        raise Interrupted("gone")

    survive = lambda link: link.gather(1)  # noqa: E731
    answers = together([die if process == victim else survive for process in range(3)])
    for error in (answer for process, answer in enumerate(answers) if process != victim):
        assert isinstance(error, Interrupted)
        assert str(error).startswith(f"process {victim} on {HOST} has died")


def test_processes_with_other_settings_are_refused() -> None:
    def ready(link: Link) -> None:
        raise AssertionError

    answers = together([ready, ready], [{"seed": 1}, {"seed": 2}])
    assert [str(answer) for answer in answers] == [
        "process 1 has seed = 2, but process 0 has 1; start all processes with the same settings"
    ] * 2


def test_a_connection_to_itself_is_not_taken_for_process_0(monkeypatch: pytest.MonkeyPatch) -> None:
    port, create_connection = free_port(), socket.create_connection
    tries, closed = iter([("127.0.0.1", port)]), threading.Event()

    def reach_itself_first(address: Any, timeout: float) -> socket.socket:
        source = next(tries, None)
        if source is None:
            closed.set()
        return create_connection(source or address, timeout, source)

    def talk(process: int) -> list[Any]:
        assert process == 1 or closed.wait(600)
        with connect(f"localhost:{port}", 2, process, {}, seconds=60.0) as link:
            return link.gather(process)

    monkeypatch.setattr(socket, "create_connection", reach_itself_first)
    assert in_threads([partial(talk, process) for process in range(2)]) == [[0, 1]] * 2


def test_a_process_that_does_not_come_is_named() -> None:
    port = free_port()
    with pytest.raises(TrustaxError, match=r"process 1, 2 did not connect to localhost:\d+ in time"):
        connect(f"localhost:{port}", 3, 0, {}, seconds=0.1)
    with pytest.raises(TrustaxError, match="process 0 cannot be reached"):
        connect(f"localhost:{port}", 3, 1, {}, seconds=0.1)
