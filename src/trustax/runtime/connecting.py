"""Connect the processes of a distributed run. Process 0 waits for the others and compares their settings."""

import contextlib
import errno
import json
import socket
import struct
import time
from typing import Any

from trustax.errors import TrustaxError
from trustax.runtime.link import SILENCE_SECONDS, Link, Peer

CONNECT_SECONDS = 300.0
SECONDS_BETWEEN_TRIES = 0.2
HELLO_LIMIT = 2**20
RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER that closes a connection at once."""


def connect(
    coordinator: str, num_processes: int, process_id: int, settings: dict[str, Any], seconds: float = CONNECT_SECONDS
) -> Link:
    """Connect to the other processes, which must have the same settings.

    Args:
        coordinator: the address of process 0, HOST:PORT.
        num_processes: the number of processes.
        process_id: the number of this one, from 0.
        settings: JSON values that must be the same in all processes.
        seconds: how long to wait for the others.
    """
    host, port = parse_address(coordinator)
    shared = json.loads(json.dumps(settings)) | {"num_processes": num_processes}
    own = {"trustax": "hello", "process": process_id, "host": socket.gethostname(), "settings": shared}
    deadline = time.monotonic() + seconds
    if process_id > 0:
        return Link(process_id, [_join(host, port, own, deadline)])
    with _listen(host, port) as server:
        peers = _accept(server, own, num_processes, coordinator, deadline)
    return Link(0, peers)


def parse_address(coordinator: str) -> tuple[str, int]:
    """Split HOST:PORT.

    >>> parse_address("node1:1234")
    ('node1', 1234)
    """
    host, colon, port = coordinator.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise TrustaxError(f"coordinator must be HOST:PORT, for example 10.0.0.1:1234, not {coordinator!r}")
    return host.strip("[]"), int(port)


def _listen(host: str, port: int) -> socket.socket:
    """Listen on all interfaces, or on this machine alone if the address is local."""
    local = host in ("localhost", "127.0.0.1")
    try:
        if local or not socket.has_dualstack_ipv6():
            return socket.create_server(("127.0.0.1" if local else "", port))
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except OSError as error:
        why = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise TrustaxError(f"process 0 cannot listen on port {port}: {why}; choose another coordinator") from error


def _accept(
    server: socket.socket, own: dict[str, Any], num_processes: int, coordinator: str, deadline: float
) -> list[Peer]:
    peers: dict[int, Peer] = {}
    try:
        while len(peers) < num_processes - 1:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            connection, _ = server.accept()
            hello = _read_line(connection, 10.0)
            if hello is None or hello.get("trustax") != "hello":
                connection.close()  # another program
                continue
            peer = Peer(int(hello["process"]), str(hello["host"])[:60], connection)
            peers[peer.process_id if peer.process_id not in peers else -1] = peer
            _check(own, hello, peers)
        for peer in peers.values():
            peer.send(trustax="welcome", host=own["host"])
    except TimeoutError:
        missing = ", ".join(str(one) for one in range(1, num_processes) if one not in peers)
        error = TrustaxError(f"process {missing} did not connect to {coordinator} in time; is it running?")
        _refuse(peers, str(error))
        raise error from None
    except TrustaxError as error:
        _refuse(peers, str(error))
        raise
    return list(peers.values())


def _check(own: dict[str, Any], hello: dict[str, Any], peers: dict[int, Peer]) -> None:
    number = hello["process"]
    if -1 in peers or number == 0:
        raise TrustaxError(f"two processes have the process_id {number}; give each its own number")
    mine, other = own["settings"], hello["settings"]
    for name in mine | other:
        if mine.get(name, "unset") != other.get(name, "unset"):
            raise TrustaxError(
                f"process {number} has {name} = {other.get(name, 'unset')}, but process 0 has "
                f"{mine.get(name, 'unset')}; start all processes with the same settings"
            )


def _refuse(peers: dict[int, Peer], reason: str) -> None:
    for peer in peers.values():
        with contextlib.suppress(OSError), peer.socket:
            peer.send(trustax="refused", reason=reason)


def _join(host: str, port: int, own: dict[str, Any], deadline: float) -> Peer:
    """Connect to process 0, which may start later."""
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5.0)
            if connection.getsockname() != connection.getpeername():
                break
            # Before process 0 listens, the system may connect a port to itself; without a reset it would stay taken.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection.close()
        except OSError as error:
            if time.monotonic() > deadline:
                why = error.strerror or str(error)
                raise TrustaxError(f"process 0 cannot be reached at {host}:{port}: {why}; is it running?") from error
            time.sleep(SECONDS_BETWEEN_TRIES)
    with contextlib.ExitStack() as stack:
        stack.enter_context(connection)
        connection.sendall(json.dumps(own).encode() + b"\n")
        welcome = _read_line(connection, max(1.0, deadline - time.monotonic() + SILENCE_SECONDS))
        if welcome is None:
            raise TrustaxError(f"process 0 at {host}:{port} ended before all processes had connected; start all again")
        if "reason" in welcome:
            raise TrustaxError(str(welcome["reason"])[:500])
        stack.pop_all()
    return Peer(0, str(welcome["host"])[:60], connection)


def _read_line(connection: socket.socket, seconds: float) -> dict[str, Any] | None:
    """One line of JSON, read byte by byte, so that nothing after it is lost; None if there is none."""
    connection.settimeout(seconds)
    line = bytearray()
    try:
        while not line.endswith(b"\n") and len(line) < HELLO_LIMIT:
            if not (byte := connection.recv(1)):
                return None
            line += byte
        values = json.loads(line)
        connection.settimeout(SILENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return values if isinstance(values, dict) else None
    except (OSError, ValueError, RecursionError):
        return None
