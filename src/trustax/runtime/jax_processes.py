"""JAX in all processes of a run, so that one program can run on the devices of all of them.

The link notices processes that die. JAX must not: it ends a process at once, with a fatal error of its own, when its
connection to process 0 closes. So the other processes reach process 0 through a port of their own (`Forwarder`).
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax

from trustax.errors import TrustaxError

if TYPE_CHECKING:
    from trustax.runtime.distributed import Group

NEVER = 10**6
"""Seconds after which JAX may believe that a process has died."""
CONNECT_SECONDS = 60.0


@contextlib.contextmanager
def jax_processes(host: str, group: "Group") -> Iterator[None]:
    """Connect JAX in all processes of a group; `host` is the one of process 0."""
    _start(host, group)
    try:
        yield
    except BaseException:
        if not group.is_first:
            _abandon()
        raise
    _stop(group)


def _start(host: str, group: "Group") -> None:
    with socket.create_server(("", 0)) as server:
        port = group.gather(server.getsockname()[1])[0]
    jax.config.update("jax_enable_recoverability", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            f"{host}:{port}" if group.is_first else Forwarder(host, port).address,
            group.num_processes,
            group.process_id,
            cluster_detection_method="deactivate",
            heartbeat_timeout_seconds=NEVER,
        )
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise TrustaxError(f"JAX cannot start in {group.num_processes} processes: {reason}") from error


def _stop(group: "Group") -> None:
    """Leave JAX's service, which process 0 has, before it ends."""
    if not group.is_first:
        jax.distributed.shutdown()
    group.gather(None)
    if group.is_first:
        jax.distributed.shutdown()


def _abandon() -> None:
    """Forget JAX's connection to process 0, which may be gone: closing it would wait for an answer for minutes."""
    from jax._src.distributed import global_state

    client, global_state.client = global_state.client, None
    # A thread that never ends keeps the connection from being closed as the program ends.
    threading.Thread(target=lambda _: threading.Event().wait(), args=(client,), daemon=True).start()


class Forwarder:
    """A local port that forwards to a port of process 0, and whose connections stay open if that process dies."""

    def __init__(self, host: str, port: int) -> None:
        self._far = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            try:
                far = socket.create_connection(self._far, timeout=CONNECT_SECONDS)
            except OSError:  # process 0 is not ready; JAX tries again
                near.close()
                continue
            far.settimeout(None)
            for source, target, closes in ((near, far, True), (far, near, False)):
                threading.Thread(target=_forward, args=(source, target, closes), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket, closes: bool) -> None:
    """Forward until the source is closed; then close the target only if `closes`."""
    with contextlib.suppress(OSError):
        while content := source.recv(2**16):
            target.sendall(content)
    if closes:
        target.close()
    else:
        threading.Event().wait()  # keeps the target open
