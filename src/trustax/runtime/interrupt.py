"""Signals that stop a run: Ctrl-C (SIGINT), SIGTERM, SIGUSR1, which SLURM can send before a time limit, and SIGHUP.

The first one stops the run after the current iteration. If its environments are stepped from Python, it stops within a
step of the rollout, and the last complete iteration is saved. A compiled rollout cannot be stopped before its end.
After that, Ctrl-C or SIGTERM ends the program immediately. SIGUSR1 and SIGHUP do not: a terminal that closes may send
several. A process that is forked in the meantime, such as one of an environment, ends by SIGTERM, with which its parent
may end it. It ignores the others, which are often sent to all processes of a job: the run needs it until it has saved.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

EXIT_CODE = 75
"""The exit code of a run that was stopped and can be resumed (EX_TEMPFAIL)."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""The second one of these ends the program."""
REPEATED = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGHUP") if hasattr(signal, name))
"""These stop a run where they would end the program; nohup ignores SIGHUP, and a program may have a use for SIGUSR1."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal; the message says what was saved and how to resume."""

    result: Any = None
    """The `Result` of the run so far, if `train` raised the exception after at least one iteration."""


class InterruptGuard:
    """A context in which the first signal sets `requested` instead of interrupting the program.

    Guards may exit in any order. After one has exited, it passes signals on to the handler before it.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}
        self._handled: set[int] = set()

    def __enter__(self) -> "InterruptGuard":
        self._pid = os.getpid()
        if _is_main_thread():
            for number in ENDING + REPEATED:
                handler = _without_left_guards(signal.getsignal(number), number)
                if handler is None:  # it is not of Python, which could not restore it
                    continue
                if number in ENDING or handler is signal.SIG_DFL or _guard_of(handler):
                    self._previous[number] = handler
                    self._handled.add(number)
                    signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(ENDING + REPEATED)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_forked = os.getpid() != self._pid
        if number not in self._handled or (is_forked and number == signal.SIGTERM):
            _pass_on(_without_left_guards(self._previous[number], number), number, frame)
            return
        if not self.requested and not is_forked:
            with contextlib.suppress(OSError):  # stderr may be closed
                os.write(sys.stderr.fileno(), b"\nStopping; press Ctrl-C again to quit now.\n")
        self.requested = True
        self._leave(ENDING)

    def _leave(self, numbers: Iterable[int]) -> None:
        """Handle these signals no more, and restore the previous handlers unless there is a newer one."""
        self._handled.difference_update(numbers)
        if _is_main_thread():
            for number in self._previous.keys() & numbers:
                if signal.getsignal(number) == self._handle:
                    signal.signal(number, _without_left_guards(self._previous[number], number))


def _is_main_thread() -> bool:
    """Whether this thread may set handlers."""
    return threading.current_thread() is threading.main_thread()


def _guard_of(handler: Any) -> InterruptGuard | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, InterruptGuard) else None


def _without_left_guards(handler: Any, number: int) -> Any:
    """A handler or, if it is that of a guard that was left, the one behind it."""
    while (guard := _guard_of(handler)) and number not in guard._handled:
        handler = guard._previous[number]
    return handler


def _pass_on(handler: Any, number: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(number, frame)
    elif handler is signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
