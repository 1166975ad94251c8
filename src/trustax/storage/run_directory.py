"""The folder of a run: when and how its state is saved, and how it is restored."""

import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.envs.engines import imports_module, is_known
from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, to_json
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState, is_resumable
from trustax.storage import history, pytree
from trustax.storage.arrays import Rows
from trustax.storage.loading import as_dict
from trustax.storage.manifest import CheckpointError
from trustax.storage.opening import KIND, open_folder
from trustax.storage.shards import save_together, wait_for_file
from trustax.storage.specs import spec_to_json


class RunDirectory:
    """Saves the state of a run to its folder; without a folder, nothing is saved.

    The processes of a distributed run share the folder. Process 0 opens it, and each saves and restores the learners
    that it trains.
    """

    def __init__(
        self,
        folder: Path | None,
        run: Run,
        environment: CompiledEnvironment | HostEnvironment,
        checkpoint_seconds: float,
        group: Group | None = None,
        engine: str | None = None,
    ) -> None:
        self.folder = folder
        self._run = run
        self._group = group or Group()
        has_all = len(self._group.learners(run)) == run.num_seeds
        self._rows = None if has_all else Rows(self._group.learners(run), run.num_seeds)
        self._environment = environment
        self._engine = engine
        self._checkpoint_seconds = checkpoint_seconds
        self._last_save_time = time.monotonic()
        self._last_save_seconds = 0.0
        self._saved_steps: int | None = None
        self._saved: Path | None = None
        self._restart_interval = 0 if is_resumable(environment) else run.restart_interval

    def open(self, resume: bool) -> None:
        """Create the folder, or check that it holds the run to resume; only process 0 does it."""
        if self.folder is None and resume:
            raise TrustaxError("resume needs run_dir, the folder of the run to resume")
        if self.folder is not None and self._group.is_first:
            self._saved = open_folder(self.folder, self._run, resume, self._header())
        name = self._group.gather(None if self._saved is None else self._saved.name)[0]
        if self.folder is not None and not self._group.is_first:
            self._saved = None if name is None else history.checkpoint_path(self.folder, 0).with_name(name)
            wait_for_file(self.folder / RUN_FILE)

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to restore."""
        return self._saved is not None

    def should_restart(self, iteration: int) -> bool:
        """Whether the environments, which cannot be saved, restart after this iteration."""
        return self._restart_interval > 0 and iteration % self._restart_interval == 0

    def should_save(self, iteration: int, stopping: bool) -> bool:
        """Whether to save after this iteration. Saving takes at most a twentieth of the time, for any interval.

        With a restart interval, a run is saved only where its environments restart: only there it resumes exactly.
        """
        if self._restart_interval:
            return self.should_restart(iteration)
        elapsed = time.monotonic() - self._last_save_time
        return stopping or elapsed >= max(self._checkpoint_seconds, 19 * self._last_save_seconds)

    def save(self, state: RunState, before: Callable[[], None] | None = None) -> Path | None:
        """Call `before`, write a checkpoint and return its path; None without a folder."""
        if self.folder is None:
            return None
        if not (self.folder / RUN_FILE).exists():
            raise TrustaxError(f"{self.folder} has lost its {RUN_FILE} during training; train again in a new folder")
        start = time.monotonic()
        if before is not None:
            before()
        steps = int(state.iteration) * self._run.batch_size
        path = history.checkpoint_path(self.folder, steps)
        save_together(path, self._saved_part(state), self._header(), self._rows, self._group)
        if self._group.is_first:
            history.prune(self.folder, up_to=steps)
        self._last_save_time = time.monotonic()
        self._last_save_seconds = self._last_save_time - start
        self._saved_steps = steps
        return path

    def restore(self, state: RunState) -> RunState:
        """Restore the newest saved state; return the given state if none was saved.

        Environments that cannot be saved are not part of it: they must be restarted before the next iteration.
        """
        if self._saved is None:
            return state
        restored = RunState(**pytree.load(self._saved, self._saved_part(state), rows=self._rows))
        self._saved_steps = int(restored.iteration) * self._run.batch_size
        if self._saved_steps != history.step_of(self._saved):
            raise CheckpointError(
                self._saved,
                f"its arrays are of step {self._saved_steps}, but its folder is named for step "
                f"{history.step_of(self._saved)}; move the folder away",
            )
        return restored

    def resume_hint(self, steps: int) -> str:
        if self.folder is None:
            return f"stopped after {steps:,} steps; nothing was saved, since there is no run_dir"
        if not steps:
            return f"stopped before the first iteration was complete; start again with: {self._resume_command()}"
        saved = " and saved" if self._saved_steps == steps else f"; {self._saved_steps or 0:,} are saved"
        return f"stopped after {steps:,} steps{saved}; resume with: {self._resume_command()}"

    def _resume_command(self) -> str:
        env_id = self._run.env_id
        if self._group.num_processes > 1:
            return "the same commands and --resume"
        if not is_known(env_id):  # the environment was given as an object
            return f"trustax.train(..., run_dir='{self.folder}', resume=True)"
        return f"trustax resume {quote(str(self.folder))}" + (f" --env-id {env_id}" if imports_module(env_id) else "")

    def checkpoint_hint(self) -> str:
        """The end of an error message that names the newest valid checkpoint, if there is one."""
        saved = None if self.folder is None else history.newest_valid(self.folder)
        return "" if saved is None else f"; the newest valid checkpoint is {saved}"

    def _header(self) -> dict[str, Any]:
        """The header of a checkpoint: the run, and the environment that it is trained on."""
        header = {"kind": KIND, "run": to_json(self._run), "spec": spec_to_json(self._environment.spec)}
        return header if self._engine is None else header | {"engine": self._engine}

    def _saved_part(self, state: RunState) -> dict[str, Any]:
        """The fields of a state to save: all, but no environments that cannot be saved in the middle of an episode."""
        fields = as_dict(state)
        return fields if is_resumable(self._environment) else fields | {"environment": None}
