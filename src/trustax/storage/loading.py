"""Agents of the learners of a run: from its state in memory, or from its folder."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trustax.agent import Agent, check_layers, load_agent
from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, from_json, read_run
from trustax.runtime.state import RunState, template_of
from trustax.storage import pytree
from trustax.storage.history import checkpoint_path, newest_sound_or_raise
from trustax.storage.hub import downloaded, is_address
from trustax.storage.manifest import MANIFEST, CheckpointError, number_of_rows, read_manifest
from trustax.storage.mirror import local_copy
from trustax.storage.object_store import is_url
from trustax.storage.specs import spec_from_json
from trustax.storage.zoo.stored import SCHEME, entry

KEYS = "['keys']"
"""The name of the array of random keys, which has a row for each seed."""
MAX_TRIES = 10


def load(path: Path | str, learner: int = 0, policy: str = "policy") -> Agent:
    """Load an agent from a folder that `Agent.save` wrote, or the agent of one learner from the folder of a run.

    `zoo:ppo/CartPole-v1` is an agent of the zoo and `hf://user/name` one of the Hugging Face hub. In the folder of a
    run, or at its URL in an object store, the newest valid checkpoint is read. `learner` is an index that starts at 0,
    and `policy="virtual"` loads MCPO's ψ instead of θ. No code is executed, and damage is detected.
    """
    if is_address(path):
        with downloaded(path) as copy:
            return load_agent(copy)
    if str(path).startswith(SCHEME):
        return _load_from_zoo(str(path).removeprefix(SCHEME))
    folder = local_copy(path)
    if (folder / RUN_FILE).exists():
        return _load_from_run(folder, learner, policy)
    found = pytree.folder_or_backup(folder)
    if not found.exists():
        raise TrustaxError(f"there is no agent at {folder}")
    if not (found / MANIFEST).exists():
        raise TrustaxError(f"{folder} is neither the folder of a run nor that of an agent")
    return load_agent(folder)


def is_agent(path: Path | str) -> bool:
    """Whether a path names an agent, in a folder, the zoo or the hub, and not a run with several of them.

    >>> is_agent("zoo:ppo/CartPole-v1"), is_agent("hf://user/name"), is_agent("s3://bucket/run"), is_agent("nowhere")
    (True, True, False, False)
    """
    if is_address(path) or str(path).startswith(SCHEME):
        return True
    return not is_url(path) and pytree.folder_or_backup(Path(path)).exists() and not (Path(path) / RUN_FILE).exists()


def _load_from_zoo(name: str) -> Agent:
    found = entry(name)
    agent = load_agent(found.folder)
    agent.env_id = found.result["run"]["env_id"]
    return agent


def _load_from_run(folder: Path, learner: int, policy: str) -> Agent:
    """The agent of a learner in the newest valid checkpoint of a run; the files are untrusted.

    A run that is still training deletes its older checkpoints; if it does so meanwhile, the checkpoint is chosen again.
    """
    read_run(folder)
    tries = 0
    while True:
        before = _checkpoints(folder)
        try:
            run, part = _read_newest(folder)
        except TrustaxError:
            tries += 1
            if tries == MAX_TRIES or _checkpoints(folder) == before:
                raise
        else:
            return agent_of(run, part, learner, policy)


def _checkpoints(run_dir: Path) -> set[Path]:
    return set(checkpoint_path(run_dir, 0).parent.glob("step_*"))


def _read_newest(folder: Path) -> tuple[Run, Any]:
    """The run of the newest valid checkpoint, and the part of its state that an agent needs."""
    saved = newest_sound_or_raise(folder)
    if saved is None:
        raise TrustaxError(f"{folder} has no checkpoint yet")
    manifest = read_manifest(pytree.folder_or_backup(saved))
    header = manifest["header"]
    try:
        run, spec = from_json(header["run"]), spec_from_json(header["spec"])
        check_layers(run.algorithm)
        if run.num_seeds != number_of_rows(manifest, KEYS):
            raise ValueError(f"{run.num_seeds} seeds, but its arrays are of another number")
        learners, observer = template_of(run, spec)
    except Exception as error:
        raise CheckpointError(saved, f"holds no run: {error}") from error
    return run, pytree.load(saved, {"learner": learners, "observer": observer}, part=True)


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
    return Agent(chosen, statistics, run.seeds[learner], run.env_id)


def as_dict(state: RunState) -> dict[str, Any]:
    return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
