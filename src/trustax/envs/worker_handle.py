"""One worker process, as seen by the process that starts it."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from trustax.envs.errors import FaultyEnvError
from trustax.errors import TrustaxError

SCRIPT = Path(__file__).with_name("worker_process.py")
EXIT_SECONDS = 2.0


class WorkerError(Exception):
    """A worker process ended or does not answer; the message names the worker, its environments and the cause."""


class Worker:
    """A worker process that steps the environments `first` to `first + count - 1`."""

    def __init__(self, number: int, first: int, count: int) -> None:
        self.number = number
        self.count = count
        self.rows = slice(first, first + count)
        self.failures = 0
        """how often it failed in a row"""
        self.start()

    def __str__(self) -> str:
        last = self.rows.stop - 1
        which = f"environment {last}" if self.count == 1 else f"environments {self.rows.start} to {last}"
        return f"worker {self.number} ({which})"

    def start(self) -> None:
        """Start the process, in a group of its own: a signal from the terminal does not reach it."""
        if sys.platform == "win32":
            raise TrustaxError("worker processes need Linux or macOS; set num_workers=0")
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", str(SCRIPT), str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, process_group=0
            )
        self.connection = Connection(ours.detach())
        self._send(sys.path)

    def ask(self, command: str, *arguments: Any) -> None:
        """Send a command; a process that has ended is noticed when the answer is received."""
        self._send((command, arguments))

    def _send(self, message: Any) -> None:
        with suppress(ConnectionError):
            self.connection.send(message)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def receive(self) -> Any:
        """The answer to the last command."""
        try:
            kind, answer = self.connection.recv()
        except (EOFError, ConnectionError):
            raise WorkerError(f"{self} {self._ending()}") from None
        if kind == "faulty":
            index, text = answer
            raise FaultyEnvError(self.rows.start + index, f"{text} (in worker {self.number})")
        if kind == "refused":
            raise TrustaxError(answer)
        return answer

    def _ending(self) -> str:
        try:
            code = self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End the process and the processes that it has started, and leave no zombie."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.connection.close()
