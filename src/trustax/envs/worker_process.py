"""A worker process, which makes and steps some copies of a Gymnasium environment for `trustax.envs.workers`.

It runs as a script and imports neither the user's script nor the package Trustax, which would import JAX: that takes a
second and much memory in every process. The few modules that it needs are imported under another package name.
"""

import ctypes
import os
import signal
import sys
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

PACKAGE = "trustax_worker"
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the process that started this one until it closes the connection or ends."""
    descriptor, parent = map(int, sys.argv[1:])
    _leave_signals_to_the_parent()
    _end_with(parent)
    connection = Connection(descriptor)
    try:
        sys.path[:] = connection.recv()
        serve(connection)
    except (EOFError, ConnectionError):
        pass  # the parent has ended


def _leave_signals_to_the_parent() -> None:
    """Signals to all processes of a job, as Ctrl-C, systemd and SLURM send them, only stop the parent, which saves.

    A function that does nothing, unlike SIG_IGN, does not hold in the programs that an environment starts. A process
    that it forks can be ended by SIGINT and SIGTERM again.
    """
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP"):
        signal.signal(getattr(signal, name), _ignore)
    os.register_at_fork(after_in_child=_end_by_signals)


def _end_by_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _ignore:  # and not a function of the environment
            signal.signal(number, signal.SIG_DFL)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing."""


def _end_with(parent: int) -> None:
    """On Linux, end at once when the parent ends; elsewhere only the next command notices it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this
        sys.exit(1)


def serve(connection: Connection) -> None:
    """Answer commands, which are names and arguments of methods of `Copies`, until `close`."""
    root = Path(__file__).resolve().parents[1]
    for name, folder in ((PACKAGE, root), (f"{PACKAGE}.envs", root / "envs")):
        sys.modules[name] = package = ModuleType(name)
        package.__path__ = [str(folder)]
    errors, envs = import_module(f"{PACKAGE}.errors"), import_module(f"{PACKAGE}.envs.errors")
    copies: Any = None
    command = ""
    while command != "close":
        try:
            command, arguments = _receive(connection)
            if command == "make":
                copies, answer = _make(*arguments)
            else:
                answer = getattr(copies, command)(*arguments)
            # A named tuple would be sent with the name of its class, which the parent does not know.
            reply = "done", tuple(answer) if command == "step" else answer
        except envs.FaultyEnvError as error:
            reply = "faulty", (error.index, str(error))
        except errors.TrustaxError as error:
            reply = "refused", str(error)
        connection.send(reply)


def _receive(connection: Connection) -> tuple[str, tuple[Any, ...]]:
    try:
        return connection.recv()
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        reason = import_module(f"{PACKAGE}.envs.errors").describe(error)
        errors = import_module(f"{PACKAGE}.errors")
        raise errors.TrustaxError(f"the environment cannot be sent to a worker process: {reason}") from error


def _make(source: Any, count: int) -> tuple[Any, Any]:
    """The copies, and their spaces as something to send."""
    import gymnasium
    from gymnasium.vector.utils import CloudpickleWrapper

    env, specification = source.fn
    if specification is not None:
        gymnasium.registry.setdefault(env, specification)
    making, stepping = (import_module(f"{PACKAGE}.envs.{name}") for name in ("making", "stepping"))
    copies = stepping.Copies(making.make_copies(env, count))
    spaces: Any = copies.observation_space, copies.action_space
    return copies, CloudpickleWrapper(spaces)


if __name__ == "__main__":
    main()
