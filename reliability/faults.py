"""Faults in file operations: a process that kills itself in the middle of a save, and operations that fail.

python -m reliability.faults --kill-in-save 3 17 -- train ppo ...     kill in save 3, at its file operation 17
"""

import builtins
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from trustax.storage import pytree
from trustax.storage.run_directory import RunDirectory

OPERATIONS = ("mkdir", "fsync", "rename", "chmod", "open", "rmdir", "unlink")
"""The file operations of a save, with `save_file` of safetensors and the built-in `open`."""

ITERATIONS_BETWEEN_SAVES = 20


class Crash(BaseException):
    """Stands for a kill: no code that handles errors handles it."""


@contextmanager
def observed_operations(before: Callable[[str], bool], after: Callable[[str], None]) -> Iterator[None]:
    """Call `before` and `after` around every file operation; `before` returns whether to call `after`."""

    def observing(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **options: Any) -> Any:
            if not before(name):
                return operation(*arguments, **options)
            result = operation(*arguments, **options)
            if "open" in name:
                os.close(result) if isinstance(result, int) else result.close()
            return after(name)

        return operate

    patches = [patch.object(os, name, observing(name, getattr(os, name))) for name in OPERATIONS]
    patches.append(patch.object(pytree, "save_file", observing("save_file", pytree.save_file)))
    patches.append(patch.object(builtins, "open", observing("builtin open", builtins.open)))
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


@contextmanager
def failing_operation(at: int, how: str) -> Iterator[list[str]]:
    """Let file operation number `at` fail `before` or `after` its effect; if `dead`, it and all that follow crash.

    Yields the names of the operations so far.
    """
    done: list[str] = []

    def full(name: str) -> None:
        raise OSError(28, "No space left on device")

    def before(name: str) -> bool:
        done.append(name)
        if how == "dead" and len(done) > at:
            raise Crash
        if how == "before" and len(done) == at + 1:
            full(name)
        return how == "after" and len(done) == at + 1

    with observed_operations(before, full):
        yield done


def kill_in_save(number: int, operation: int) -> None:
    """From now on, kill this process at a file operation of a save; both are counted from 1."""
    save, should_save = RunDirectory.save, RunDirectory.should_save
    saves = 0

    def should_save_often(directory: RunDirectory, iteration: int, stopping: bool) -> bool:
        """Also save every few iterations, wherever the run could be saved: usually it saves at intervals of time."""
        often = not directory._restart_interval and iteration % ITERATIONS_BETWEEN_SAVES == 0
        return often or should_save(directory, iteration, stopping)

    def killing_save(*arguments: Any, **options: Any) -> Any:
        nonlocal saves
        saves, operations = saves + 1, 0

        def before(name: str) -> bool:
            nonlocal operations
            operations += 1
            if saves == number and operations == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return False

        with observed_operations(before, lambda name: None):
            return save(*arguments, **options)

    RunDirectory.save = killing_save  # type: ignore
    RunDirectory.should_save = should_save_often  # type: ignore


def main() -> None:
    split = sys.argv.index("--")
    fault, *numbers = sys.argv[1:split]
    {"--kill-in-save": kill_in_save}[fault](*map(int, numbers))
    from trustax.cli.main import main as trustax

    trustax(sys.argv[split + 1 :])


if __name__ == "__main__":
    main()
