"""A run's folder: what is kept of a run state, when, and how it is taken up again."""

import dataclasses
import time
from pathlib import Path
from shlex import quote
from typing import Any

import jax

from trustax.agent import Agent, load_agent, spec_from_json, spec_to_json
from trustax.envs import CompiledEnvironment, HostEnvironment
from trustax.envs.engines import imports_module, is_known
from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, from_json, read_run, settings_of, to_json, write_run
from trustax.runtime.state import RunState, is_resumable, restart_environment, template_of
from trustax.storage import history as checkpoints
from trustax.storage import pytree as checkpoint
from trustax.storage.manifest import CheckpointError

KIND = "run"


class RunDirectory:
    """Saves the states of one run into its folder; without a folder it keeps nothing."""

    def __init__(
        self,
        folder: Path | None,
        run: Run,
        environment: CompiledEnvironment | HostEnvironment,
        seconds: float,
    ) -> None:
        self.folder = folder
        self._run = run
        self._environment = environment
        self._seconds = seconds
        self._saved = time.monotonic()
        self._took = 0.0
        self._saved_steps: int | None = None
        self._restart_interval = 0 if is_resumable(environment) else run.restart_interval

    def open(self, resume: bool) -> None:
        """Make the folder, or make sure that it holds the run that is to go on."""
        if self.folder is None:
            if resume:
                raise TrustaxError("resume needs run_dir, the folder of the run that is to go on")
            return
        try:
            if (self.folder / RUN_FILE).exists():
                if not resume:
                    raise TrustaxError(f"{self.folder} holds a run already; resume it or choose another folder")
                _require_same(read_run(self.folder), self._run, self.folder)
                self._require_longer()
            elif self.folder.exists() and not (self.folder.is_dir() and _is_empty(self.folder)):
                raise TrustaxError(f"{self.folder} exists and is no run folder; choose another")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_run(self._run, self.folder)
        except OSError as error:
            raise TrustaxError(f"{self.folder} cannot be written: {error.strerror or error}") from error

    def _require_longer(self) -> None:
        """Refuse to give a run an end that it has passed: its definition would say less than was done."""
        assert self.folder is not None
        saved = checkpoints.latest(self.folder)
        steps, end = 0 if saved is None else checkpoints.step_of(saved), self._run.num_iterations * self._run.batch_size
        if steps > end:
            raise TrustaxError(
                f"{self.folder} has done {steps:,} steps already, so its total_timesteps cannot become "
                f"{self._run.total_timesteps:,}; name the total, for example {2 * steps:,}"
            )

    def restarts_at(self, iteration: int) -> bool:
        """Whether the environments, which cannot be saved, begin anew after so many iterations."""
        return self._restart_interval > 0 and iteration % self._restart_interval == 0

    def is_due(self, iteration: int, stopping: bool) -> bool:
        """Whether it is time to save; however short the interval, saving takes a twentieth of the time at most.

        Where the environments begin anew now and then, only there can they be taken up exactly.
        """
        if self._restart_interval:
            return self.restarts_at(iteration)
        return stopping or time.monotonic() - self._saved >= max(self._seconds, 19 * self._took)

    def save(self, state: RunState) -> Path | None:
        """Write a checkpoint; where it is, or None without a folder."""
        if self.folder is None:
            return None
        began = time.monotonic()
        header = {"kind": KIND, "run": to_json(self._run), "spec": spec_to_json(self._environment.spec)}
        steps = int(state.iteration) * self._run.batch_size
        path = checkpoints.checkpoint_path(self.folder, steps)
        checkpoint.save(path, self._kept(state), header)
        checkpoints.prune(self.folder)
        self._saved = time.monotonic()
        self._took = self._saved - began
        self._saved_steps = steps
        return path

    def restore(self, state: RunState) -> RunState:
        """The newest state that was saved, or the one given if there is none yet."""
        saved = None if self.folder is None else checkpoints.newest(self.folder)
        if saved is None:
            return state
        restored = RunState(**checkpoint.load(saved, self._kept(state)))
        self._saved_steps = int(restored.iteration) * self._run.batch_size
        return restored if is_resumable(self._environment) else restart_environment(restored, self._environment)

    def resume_hint(self, steps: int) -> str:
        if self.folder is None:
            return f"stopped after {steps:,} steps; nothing was saved, since there is no run_dir"
        kept = " and saved" if self._saved_steps == steps else f"; {self._saved_steps or 0:,} are saved"
        return f"stopped after {steps:,} steps{kept}; go on with: {self._how_to_resume()}"

    def _how_to_resume(self) -> str:
        env_id = self._run.env_id
        if not is_known(env_id):  # it was made of an object, by whose name it goes
            return f"trustax.training(..., run_dir='{self.folder}', resume=True)"
        return f"trustax resume {quote(str(self.folder))}" + (f" --env-id {env_id}" if imports_module(env_id) else "")

    def last_good(self) -> str:
        saved = None if self.folder is None else checkpoints.latest(self.folder)
        return "" if saved is None else f"; the last good checkpoint is {saved}"

    def _kept(self, state: RunState) -> dict[str, Any]:
        """What is written of a state: all of it, unless the environments cannot be taken up in mid-episode."""
        kept = as_dict(state)
        return kept if is_resumable(self._environment) else kept | {"environment": None}


def as_dict(state: RunState) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}


def _is_empty(folder: Path) -> bool:
    """Whether nothing is in it but what a kill left of the first file."""
    return all(path.name.startswith(f".{RUN_FILE}.") for path in folder.iterdir())


def _require_same(kept: Run, run: Run, folder: Path) -> None:
    """A run may be made longer when it is taken up again; anything else would be another run."""
    if kept.algorithm_name != run.algorithm_name:
        raise TrustaxError(
            f"{folder} holds a run of {kept.algorithm_name}, not of {run.algorithm_name}; choose another folder"
        )
    old, new = (settings_of(each, without=("total_timesteps",)) for each in (kept, run))
    for name in old:
        if old[name] != new[name]:
            raise TrustaxError(
                f"{folder} holds a run with {name} = {old[name]}, not {new[name]}; resume it as it was, "
                "or choose another folder"
            )


def agent_of(run: Run, state: Any, learner: int, policy: str) -> Agent:
    """The agent of one learner, counted from 0, from a state or the part of one that `load` reads."""
    if not 0 <= learner < run.num_seeds:
        raise TrustaxError(f"this run has the learners 0 to {run.num_seeds - 1}, not {learner}")
    learners = state["learner"]
    policies = getattr(learners, "policies", {"policy": learners.policy})
    if policy not in policies:
        raise TrustaxError(f"{run.algorithm_name} has no policy called {policy!r}; it has {', '.join(policies)}")
    chosen, statistics = jax.tree.map(
        lambda x: x[learner], (policies[policy], state["observer"].observation_statistics)
    )
    return Agent(chosen, statistics, seed=run.seeds[learner])


def load(path: Path | str, learner: int = 0, policy: str = "policy") -> Agent:
    """Load an agent: from a folder that `Agent.save` wrote, or one learner's from the folder of a run.

    Of a run, the newest checkpoint is read; learners count from 0, and `policy="virtual"` takes MCPO's ψ instead of θ.
    Nothing in a file is executed, and damage is detected.
    """
    folder = Path(path)
    if not (folder / RUN_FILE).exists():
        return load_agent(folder)
    read_run(folder)
    saved = checkpoints.newest(folder)
    if saved is None:
        raise TrustaxError(f"{folder} has no checkpoint yet")
    header = checkpoint.read_header(saved)
    try:
        run, spec = from_json(header["run"]), spec_from_json(header["spec"])
        learners, observer = template_of(run, spec)
    except Exception as error:  # a file may hold anything
        raise CheckpointError(saved, f"holds no run: {error}") from error
    part = checkpoint.load(saved, {"learner": learners, "observer": observer}, part=True)
    return agent_of(run, part, learner, policy)
