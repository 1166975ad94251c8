"""The folder of a run: when and how its state is saved, and how it is restored."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import jax
import numpy as np

from trustax.agent import Agent, check_layers, load_agent
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.envs.engines import imports_module, is_known
from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, from_json, read_run, settings_of, to_json, write_run
from trustax.runtime.distributed import Group
from trustax.runtime.state import RunState, is_resumable, restart_environment, template_of
from trustax.storage import history as checkpoints
from trustax.storage import pytree as checkpoint
from trustax.storage.arrays import Rows
from trustax.storage.hub import downloaded, is_address
from trustax.storage.lease import is_lease
from trustax.storage.manifest import CheckpointError, number_of_rows, read_manifest
from trustax.storage.mirror import local_copy
from trustax.storage.pytree import folder_or_backup
from trustax.storage.shards import save_together, wait_for_file
from trustax.storage.specs import spec_from_json, spec_to_json
from trustax.storage.zoo.stored import SCHEME, entry

KIND = "run"
KEYS = "['keys']"
"""The name of the array of random keys, which has a row for each seed."""


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
    ) -> None:
        self.folder = folder
        self._run = run
        self._group = group or Group()
        has_all = len(self._group.learners(run)) == run.num_seeds
        self._rows = None if has_all else Rows(self._group.learners(run), run.num_seeds)
        self._environment = environment
        self._checkpoint_seconds = checkpoint_seconds
        self._last_save_time = time.monotonic()
        self._last_save_seconds = 0.0
        self._saved_steps: int | None = None
        self._saved: Path | None = None
        self._restart_interval = 0 if is_resumable(environment) else run.restart_interval

    def open(self, resume: bool) -> None:
        """Create the folder, or check that it holds the run to resume; only process 0 does it."""
        if self._group.is_first:
            self._open(resume)
        name = self._group.gather(None if self._saved is None else self._saved.name)[0]
        if self.folder is None or self._group.is_first:
            return
        self._saved = None if name is None else checkpoints.checkpoint_path(self.folder, 0).with_name(name)
        wait_for_file(self.folder / RUN_FILE)

    def _open(self, resume: bool) -> None:
        if self.folder is None:
            if resume:
                raise TrustaxError("resume needs run_dir, the folder of the run to resume")
            return
        try:
            if (self.folder / RUN_FILE).exists():
                if not resume:
                    raise TrustaxError(f"{self.folder} already holds a run; resume it or choose another folder")
                _check_same_run(read_run(self.folder), self._run, self.folder)
                self._saved = self._newest_checkpoint(self.folder)
                self._check_total_timesteps()
            elif self.folder.exists() and not (self.folder.is_dir() and _is_empty(self.folder)):
                raise TrustaxError(f"{self.folder} exists and is not a run folder; choose another folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_run(self._run, self.folder)
        except OSError as error:
            raise TrustaxError(f"{self.folder} cannot be written: {error.strerror or error}") from error

    def _newest_checkpoint(self, folder: Path) -> Path | None:
        """The newest sound checkpoint, which must be one of this run."""
        saved = checkpoints.newest_sound_or_raise(folder)
        if saved is not None:
            _check_same_header(saved, checkpoint.read_header(saved), self._run)
        return saved

    def _check_total_timesteps(self) -> None:
        """Refuse a total that the run has already passed: its definition would not match its metrics."""
        steps = 0 if self._saved is None else checkpoints.step_of(self._saved)
        end = self._run.num_iterations * self._run.batch_size
        if steps > end:
            raise TrustaxError(
                f"{self.folder} has already trained for {steps:,} steps, so total_timesteps cannot be "
                f"{self._run.total_timesteps:,}; choose a larger total, for example {2 * steps:,}"
            )

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
        header = {"kind": KIND, "run": to_json(self._run), "spec": spec_to_json(self._environment.spec)}
        steps = int(state.iteration) * self._run.batch_size
        path = checkpoints.checkpoint_path(self.folder, steps)
        save_together(path, self._saved_part(state), header, self._rows, self._group)
        if self._group.is_first:
            checkpoints.prune(self.folder, up_to=steps)
        self._last_save_time = time.monotonic()
        self._last_save_seconds = self._last_save_time - start
        self._saved_steps = steps
        return path

    def restore(self, state: RunState) -> RunState:
        """Restore the newest saved state; return the given state if none was saved."""
        if self._saved is None:
            return state
        restored = RunState(**checkpoint.load(self._saved, self._saved_part(state), rows=self._rows))
        self._saved_steps = int(restored.iteration) * self._run.batch_size
        if self._saved_steps != checkpoints.step_of(self._saved):
            raise CheckpointError(
                self._saved,
                f"its arrays are of step {self._saved_steps}, but its folder is named for step "
                f"{checkpoints.step_of(self._saved)}; move the folder away",
            )
        if is_resumable(self._environment):
            return restored
        return restart_environment(self._group.part_of(self._run), restored, self._environment)

    def resume_hint(self, steps: int) -> str:
        if self.folder is None:
            return f"stopped after {steps:,} steps; nothing was saved, since there is no run_dir"
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
        saved = None if self.folder is None else checkpoints.newest_valid(self.folder)
        return "" if saved is None else f"; the newest valid checkpoint is {saved}"

    def _saved_part(self, state: RunState) -> dict[str, Any]:
        """The fields of a state to save: all, but no environments that cannot be saved in the middle of an episode."""
        fields = as_dict(state)
        return fields if is_resumable(self._environment) else fields | {"environment": None}


def as_dict(state: RunState) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}


def _is_empty(folder: Path) -> bool:
    """Whether a folder is empty, ignoring leases and an unfinished run.json that a kill left behind."""
    return all(path.name.startswith(f".{RUN_FILE}.") or is_lease(path.name) for path in folder.iterdir())


def _check_same_run(saved: Run, run: Run, folder: Path) -> None:
    """A resumed run may have another total_timesteps; all other settings must be the same."""
    if saved.algorithm_name != run.algorithm_name:
        raise TrustaxError(
            f"{folder} holds a run of {saved.algorithm_name}, not of {run.algorithm_name}; choose another folder"
        )
    for name, old, new in _differences(saved, run):
        raise TrustaxError(
            f"{folder} holds a run with {name} = {old}, not {new}; resume it without changes or choose another folder"
        )


def _check_same_header(path: Path, header: dict[str, Any], run: Run) -> None:
    """A checkpoint holds the run that wrote it, which must be the run of its folder; older checkpoints may lack it."""
    if header.get("kind", KIND) != KIND:
        raise CheckpointError(path, f"not the checkpoint of a run, but of an {header['kind']}; move it away")
    if "run" not in header:
        return
    try:
        saved = from_json(header["run"])
    except TrustaxError as error:
        raise CheckpointError(path, error) from error
    for name, old, new in _differences(saved, run):
        raise TrustaxError(
            f"{path} was trained with {name} = {old}, but {RUN_FILE} says {new}; set it to {old} again, or train in "
            "another folder"
        )


def _differences(saved: Run, run: Run) -> list[tuple[str, Any, Any]]:
    """The settings in which two runs differ, each with both values; total_timesteps may differ."""
    old, new = (settings_of(each, without=("total_timesteps",)) for each in (saved, run))
    return [
        (name, old.get(name, "unset"), new.get(name, "unset"))
        for name in old | new
        if old.get(name, "unset") != new.get(name, "unset")
    ]


def agent_of(run: Run, state: Any, learner: int, policy: str, first: int = 0) -> Agent:
    """The agent of a learner, given by its index, from a run state or from the part of it that `load` reads.

    In a distributed run, the state has the learners of one process, from the index `first` on.
    """
    if not 0 <= learner < run.num_seeds:
        raise TrustaxError(f"learner must be between 0 and {run.num_seeds - 1}, not {learner}")
    own = range(first, first + state["keys"].shape[0]) if "keys" in state else range(run.num_seeds)
    if learner not in own:
        raise TrustaxError(
            f"this process trains the learners {own.start} to {own.stop - 1}; load learner {learner} from the run's "
            f"folder: trustax.load(run_dir, {learner})"
        )
    learners = state["learner"]
    policies = getattr(learners, "policies", {"policy": learners.policy})
    if policy not in policies:
        raise TrustaxError(f"{run.algorithm_name} has no policy called {policy!r}; it has {', '.join(policies)}")
    # Learners may be on other devices than environments, or on those of several processes; an agent is on one device.
    chosen, statistics = jax.tree.map(
        lambda x: jax.device_put(
            (x if getattr(x, "is_fully_addressable", True) else np.asarray(x))[learner - first], jax.local_devices()[0]
        ),
        (policies[policy], state["observer"].observation_statistics),
    )
    return Agent(chosen, statistics, seed=run.seeds[learner])


def load(path: Path | str, learner: int = 0, policy: str = "policy") -> Agent:
    """Load an agent from a folder that `Agent.save` wrote, or the agent of one learner from the folder of a run.

    `zoo:ppo/CartPole-v1` is an agent of the zoo and `hf://user/name` one of the Hugging Face hub. In the folder of a
    run, or at its URL in an object store, the newest valid checkpoint is read. `learner` is an index that starts at 0,
    and `policy="virtual"` loads MCPO's ψ instead of θ. No code is executed, and damage is detected.
    """
    if is_address(path):
        with downloaded(path) as copy:
            return load_agent(copy)
    folder = entry(str(path).removeprefix(SCHEME)).folder if str(path).startswith(SCHEME) else local_copy(path)
    if not folder.exists():
        raise TrustaxError(f"there is no agent at {folder}")
    if not (folder / RUN_FILE).exists():
        return load_agent(folder)
    read_run(folder)
    saved = checkpoints.newest_sound_or_raise(folder)
    if saved is None:
        raise TrustaxError(f"{folder} has no checkpoint yet")
    manifest = read_manifest(folder_or_backup(saved))
    header = manifest["header"]
    try:
        run, spec = from_json(header["run"]), spec_from_json(header["spec"])
        check_layers(run.algorithm)
        if run.num_seeds != number_of_rows(manifest, KEYS):
            raise ValueError(f"{run.num_seeds} seeds, but its arrays are of another number")
        learners, observer = template_of(run, spec)
    except Exception as error:  # the file is untrusted
        raise CheckpointError(saved, f"holds no run: {error}") from error
    part = checkpoint.load(saved, {"learner": learners, "observer": observer}, part=True)
    return agent_of(run, part, learner, policy)
