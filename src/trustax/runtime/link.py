"""Messages between the processes of a distributed run: lines of JSON over TCP, with process 0 in the middle.

Learners never exchange arrays, so only metrics, decisions and heartbeats are sent. When a process dies, the system
closes its connection, and the others notice at once; if its machine dies, they notice that its heartbeats have stopped.
JAX's coordination service is not used for this: it ends the surviving processes with a fatal error of its own.
"""

import contextlib
import json
import os
import queue
import selectors
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from trustax.errors import TrustaxError
from trustax.runtime.interrupt import EXIT_CODE, Interrupted

HEARTBEAT_SECONDS = 5.0
SILENCE_SECONDS = 40.0
"""A process that is silent for this long counts as dead; also the time limit of sending a message."""
GRACE_SECONDS = 10.0
"""How long a process that has lost another one may compute before it is ended."""
LINE_LIMIT = 256 * 2**20


@dataclass
class Peer:
    """Another process, and the connection to it."""

    process_id: int
    host: str
    socket: socket.socket
    inbox: "queue.SimpleQueue[Any]" = field(default_factory=queue.SimpleQueue)
    """the values that it has sent; None after a process has ended"""
    buffer: bytearray = field(default_factory=bytearray)
    lock: threading.Lock = field(default_factory=threading.Lock)
    heard: float = field(default_factory=time.monotonic)
    has_ended: bool = False

    def send(self, **message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self.lock:
            self.socket.sendall(line)

    def receive(self) -> list[dict[str, Any]]:
        """The complete messages that have arrived; an OSError if the connection is closed."""
        content = self.socket.recv(2**16)
        if not content or len(self.buffer) > LINE_LIMIT:
            raise ConnectionResetError
        self.heard = time.monotonic()
        self.buffer += content
        if b"\n" not in content:
            return []
        *lines, rest = self.buffer.split(b"\n")
        self.buffer = rest
        try:
            return [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError, RecursionError) as error:
            raise ConnectionResetError from error


@dataclass(frozen=True)
class Loss:
    """A process that has ended before the run, with the error that it reported, if any."""

    process_id: int
    host: str
    reason: str | None

    def __str__(self) -> str:
        place = f"process {self.process_id} on {self.host}"
        if self.reason is not None:
            return f"{place} stopped: {self.reason}"
        return f"{place} has died, so this one stops; start all processes again with --resume"

    def error(self) -> BaseException:
        """An error of the user, or the end of a run that can be resumed."""
        return Interrupted(str(self)) if self.reason is None else TrustaxError(str(self))


class Link:
    """The connections of a process: process 0 has one to each other process, which have one to process 0.

    A thread receives messages and sends heartbeats. If a process is lost, `gather` raises an error; a process that is
    computing, and does not call it, is ended by the thread.
    """

    def __init__(self, process_id: int, peers: list[Peer]) -> None:
        self._process_id = process_id
        self._peers = sorted(peers, key=lambda peer: peer.process_id)
        self._loss: Loss | None = None
        self._lost = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="link", daemon=True)
        self._thread.start()

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in their order; every process must call it."""
        if self._process_id > 0:
            self._send(self._peers[0], values=value)
            return self._next(self._peers[0])
        values = [value, *map(self._next, self._peers)]
        for peer in self._peers:
            self._send(peer, values=values)
        return values

    def _next(self, peer: Peer) -> Any:
        if self._loss is None and (message := peer.inbox.get()) is not None:
            return message["values"]
        self._lose(peer.process_id, peer.host, None)  # if it has ended without a reason
        assert self._loss is not None
        raise self._loss.error()

    def _send(self, peer: Peer, **message: Any) -> None:
        try:
            peer.send(**message)
        except TimeoutError:
            self._lose(peer.process_id, peer.host, None)
        except OSError:
            pass  # the thread that receives reads the last messages first: they may name another process as the cause

    def close(self, reason: str | None = None) -> None:
        """Leave the others: with a reason they stop too, without one they must not need this process any more."""
        if self._loss is None:
            for peer in self._peers:
                with contextlib.suppress(OSError):
                    peer.send(ended=True, reason=reason)
        self._closed.set()
        self._thread.join(timeout=2 * SILENCE_SECONDS)
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.socket.close()

    def __enter__(self) -> "Link":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TrustaxError):
            self._lost.wait(HEARTBEAT_SECONDS)  # a program of all processes may fail before the loss is noticed
            if self._loss is not None:
                self.close()
                raise self._loss.error() from error
        is_agreed = error is None or isinstance(error, Interrupted)
        self.close(None if is_agreed else " ".join(str(error).split())[:500] or type(error).__name__)

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            for peer in self._peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            beat_time = 0.0
            while not self._closed.is_set() and self._loss is None:
                for key, _ in selector.select(timeout=0.2):
                    self._receive(key.data)
                    if key.data.has_ended:
                        selector.unregister(key.fileobj)
                if time.monotonic() - beat_time >= HEARTBEAT_SECONDS:
                    beat_time = time.monotonic()
                    self._beat(beat_time)
        if self._loss is not None and not self._closed.wait(GRACE_SECONDS):
            print(f"trustax: {self._loss}", file=sys.stderr, flush=True)
            os._exit(EXIT_CODE if self._loss.reason is None else 2)

    def _receive(self, peer: Peer) -> None:
        try:
            messages = peer.receive()
        except OSError:
            self._lose(peer.process_id, peer.host, None)
            return
        for message in messages:
            if "values" in message:
                peer.inbox.put(message)
            elif "lost" in message:
                self._lose(*message["lost"])
            elif message.get("ended"):
                peer.has_ended = True
                peer.inbox.put(None)
                if message["reason"] is not None:
                    self._lose(peer.process_id, peer.host, message["reason"])

    def _beat(self, now: float) -> None:
        for peer in self._peers:
            if peer.has_ended:
                continue
            self._send(peer, beat=True)
            if now - peer.heard > SILENCE_SECONDS:
                self._lose(peer.process_id, peer.host, None)

    def _lose(self, process_id: int, host: str, reason: str | None) -> None:
        """Note the first loss, tell the other processes, and wake up `gather`."""
        if self._loss is not None or self._closed.is_set():
            return
        self._loss = Loss(process_id, host, reason)
        self._lost.set()
        for peer in self._peers:
            if peer.process_id != process_id:
                with contextlib.suppress(OSError):
                    peer.send(lost=[process_id, host, reason])
            peer.inbox.put(None)
