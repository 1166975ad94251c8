"""A training program that pauses after its first checkpoint, so that a test can stop or kill it at a known moment.

`python -m tests.pausing` is the worker of a sweep, and `python -m tests.pausing train ppo …` the command line. The
variable TRUSTAX_TEST_PAUSE has the iterations that a run must have to be paused, and the file that says that it pauses.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trustax import training
from trustax.cli.main import main
from trustax.runtime.interrupt import EXIT_CODE
from trustax.runtime.iteration import Iteration
from trustax.runtime.loop import TrainingLoop
from trustax.sweeps import worker

VARIABLE = "TRUSTAX_TEST_PAUSE"
SECONDS_BETWEEN_LOOKS = 0.01


class Pause:
    """A pause of a program that runs with the variables `environment`, as its test sees it."""

    def __init__(self, file: Path, min_iterations: int = 2) -> None:
        self._file = file
        self.environment = os.environ | {VARIABLE: f"{min_iterations}:{file}"}

    def wait_for(self, process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
        """Wait until the program pauses; it must not end before."""
        while not self._file.exists():
            assert process.poll() is None, f"it ended with exit code {process.returncode} before its pause"
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def end(self) -> None:
        """Let the program go on; a signal that stops its run ends the pause, too."""
        self._file.unlink()


class PausingLoop(TrainingLoop):
    """Training that pauses once: after its first iteration, which is always saved, before the caller sees it."""

    def __iter__(self) -> Iterator[Iteration]:
        min_iterations, _, file = os.environ[VARIABLE].partition(":")
        pauses = self.run.num_iterations >= int(min_iterations)
        for iteration in super().__iter__():
            if pauses:
                pauses = False
                assert iteration.checkpoint is not None
                self._pause(Path(file))
            yield iteration

    def _pause(self, file: Path) -> None:
        parent = os.getppid()
        file.touch()
        while file.exists() and not self.decisions.is_signaled:
            if os.getppid() != parent:  # the test, or the sweep that it has killed, is gone
                os._exit(EXIT_CODE)
            time.sleep(SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    training.TrainingLoop = worker.TrainingLoop = PausingLoop  # type: ignore[misc, attr-defined]
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else worker.work())
