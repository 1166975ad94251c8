"""Ctrl-C and SIGTERM: noted when they come, acted on between two iterations; a second one ends at once."""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 75
"""What the shell sees of a run that was stopped and can go on (EX_TEMPFAIL)."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped from outside, after saving; the message says how to go on."""


class InterruptGuard:
    """Within this context the signals set `requested` instead of breaking off what is going on."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "InterruptGuard":
        if threading.current_thread() is threading.main_thread():  # Python delivers signals nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()
        with contextlib.suppress(OSError):  # no one may be there to read it
            os.write(sys.stderr.fileno(), b"\nstopping as soon as all can be saved; once more to stop at once\n")

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
