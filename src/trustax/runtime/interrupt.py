"""Ctrl-C and SIGTERM: the first one stops a run, the second one ends the program immediately.

A run stops after the current iteration. If its environments are stepped from Python, it stops within a step of the
rollout, and the last complete iteration is saved. A compiled rollout cannot be stopped before its end.
"""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 75
"""The exit code of a run that was stopped and can be resumed (EX_TEMPFAIL)."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal; the message says what was saved and how to resume."""

    result: Any = None
    """The `Result` of the run so far, if `train` raised the exception after at least one iteration."""


class InterruptGuard:
    """A context in which the first signal sets `requested` instead of interrupting the program."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():  # other threads cannot handle signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(sys.stderr.fileno(), b"\nStopping after this iteration; press Ctrl-C again to quit now.\n")

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
