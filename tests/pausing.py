"""A training program that pauses after a checkpoint, so that a test can stop or kill it at a known moment.

`python -m tests.pausing` is the worker of a sweep, and `python -m tests.pausing train ppo …` the command line. The
variable TRUSTAX_TEST_PAUSE has the iteration from which on a checkpoint pauses the program, and the file that says so.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trustax import training
from trustax.cli.main import main
from trustax.runtime.iteration import Iteration
from trustax.runtime.loop import TrainingLoop
from trustax.sweeps import worker

VARIABLE = "TRUSTAX_TEST_PAUSE"
SECONDS_BETWEEN_LOOKS = 0.01


class Pause:
    """A pause of a program that runs with the variables `environment`, as its test sees it."""

    def __init__(self, file: Path, iteration: int = 1) -> None:
        self._file = file
        self.environment = os.environ | {VARIABLE: f"{iteration}:{file}"}

    def wait_for(self, process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
        """Wait until the program pauses; it must not end before."""
        while not self._file.exists():
            assert process.poll() is None, f"it ended with exit code {process.returncode} before its pause"
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def end(self) -> None:
        """Let the program go on; a signal that stops its run ends the pause, too."""
        self._file.unlink()


class PausingLoop(TrainingLoop):
    """Training that pauses once: after the first checkpoint from an iteration on, before the caller sees it."""

    def __iter__(self) -> Iterator[Iteration]:
        first, _, file = os.environ[VARIABLE].partition(":")
        waiting = True
        for iteration in super().__iter__():
            if waiting and iteration.number >= int(first) and iteration.checkpoint is not None:
                waiting = False
                Path(file).touch()
                parent = os.getppid()  # another one if the test has failed and ended
                while Path(file).exists() and not self.decisions.is_signaled and os.getppid() == parent:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
            yield iteration


if __name__ == "__main__":
    training.TrainingLoop = worker.TrainingLoop = PausingLoop  # type: ignore[misc, attr-defined]
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else worker.work())
