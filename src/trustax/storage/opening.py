"""Open the folder of a run: create it, or check that it holds the run to resume and find its newest checkpoint."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from trustax.envs.engines import bare_id, is_known, with_engine
from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, from_json, read_run, settings_of, write_run
from trustax.storage import history, pytree
from trustax.storage.journal import METRICS_FILE
from trustax.storage.lease import is_lease
from trustax.storage.manifest import CheckpointError
from trustax.storage.specs import spec_from_json

KIND = "run"
"""What the header of a run's checkpoint says that it is."""


def open_folder(folder: Path, run: Run, resume: bool, header: dict[str, Any]) -> Path | None:
    """Create the folder of a run, or check that it holds the run to resume; returns the newest sound checkpoint.

    A folder whose run failed before the end of its first iteration is used as a new one.
    The `header` is that of the checkpoints to come, which must be of the same environment as those in the folder.
    """
    saved = None
    try:
        if (folder / RUN_FILE).exists() and not _never_trained(folder):
            if not resume:
                raise TrustaxError(
                    f"{folder} already holds a run; resume it with resume=True (--resume) or choose another folder"
                )
            old = read_run(folder)
            _check_same_run(old, run, folder)
            saved = history.newest_sound_or_raise(folder)
            stored = {} if saved is None else pytree.read_header(saved)
            _check_same_engine(folder, stored.get("engine"), header.get("engine"), old.env_id, run.env_id)
            if saved is not None:
                _check_same_header(saved, stored, run)
                _check_same_spec(saved, stored, header)
            _check_total_timesteps(folder, run, saved)
            history.remove_unfinished_agents(folder)
        elif folder.exists() and not (folder / RUN_FILE).exists() and not (folder.is_dir() and _is_empty(folder)):
            raise TrustaxError(f"{folder} exists and is not a run folder; choose another folder")
        else:
            run.require_one_iteration()
        folder.mkdir(parents=True, exist_ok=True)
        write_run(run, folder)
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be written: {error.strerror or error}") from error
    return saved


def _check_total_timesteps(folder: Path, run: Run, saved: Path | None) -> None:
    """Refuse a total that the run has already passed: its definition would not match its metrics."""
    steps = 0 if saved is None else history.step_of(saved)
    if steps > run.num_iterations * run.batch_size:
        raise TrustaxError(
            f"{folder} has already trained for {steps:,} steps, so total_timesteps cannot be "
            f"{run.total_timesteps:,}; choose a larger total, for example {2 * steps:,}"
        )


def _never_trained(folder: Path) -> bool:
    """Whether the run in a folder has neither a checkpoint nor metrics."""
    metrics, checkpoints = folder / METRICS_FILE, history.checkpoint_path(folder, 0).parent
    is_unlogged = not metrics.exists() or metrics.stat().st_size == 0
    return is_unlogged and (not checkpoints.exists() or next(checkpoints.iterdir(), None) is None)


def _is_empty(folder: Path) -> bool:
    """Whether a folder is empty, ignoring leases and an unfinished run.json that a kill left behind."""
    return all(path.name.startswith(f".{RUN_FILE}.") or is_lease(path.name) for path in folder.iterdir())


def _check_same_run(saved: Run, run: Run, folder: Path) -> None:
    """A resumed run may have another total_timesteps, and name its engine; all other settings must be the same."""
    if saved.algorithm_name != run.algorithm_name:
        raise TrustaxError(
            f"{folder} holds a run of {saved.algorithm_name}, not of {run.algorithm_name}; choose another folder"
        )
    for name, old, new in _differences(saved, run):
        raise _changed(folder, name, old, new)


def _changed(folder: Path, name: str, old: Any, new: Any) -> TrustaxError:
    return TrustaxError(
        f"{folder} holds a run with {name} = {old}, not {new}; resume it without changes or choose another folder"
    )


def _check_same_engine(folder: Path, old: object, new: str | None, old_id: str, new_id: str) -> None:
    """The engine of an id without a prefix depends on what is installed; `old` is None in older checkpoints."""
    if old is None and old_id != new_id:
        raise _changed(folder, "env_id", old_id, new_id)
    if isinstance(old, str) and new is not None and old != new:
        hint = with_engine(new_id, old) if is_known(new_id) else "pass the same environment"
        raise TrustaxError(f"{folder} was trained with {old}, but {new_id} runs on {new} here; to resume, {hint}")


def _check_same_spec(path: Path, stored: dict[str, Any], header: dict[str, Any]) -> None:
    """The environment must have the observations and actions that the run was trained with."""
    if "spec" not in stored:
        return
    try:
        old, new = (asdict(spec_from_json(each["spec"])) for each in (stored, header))
    except Exception as error:  # the file may contain anything
        raise CheckpointError(path, f"holds no run: {error}") from error
    for name in new:
        if old[name] != new[name]:
            raise TrustaxError(
                f"{path} was trained with {name} = {old[name]}, but the environment now has {new[name]}; install the "
                "version that it was trained with, or choose another folder"
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
    """The settings in which two runs differ, each with both values; total_timesteps and the engine may differ."""
    old, new = (settings_of(each, without=("total_timesteps",)) for each in (saved, run))
    if bare_id(saved.env_id) == bare_id(run.env_id):
        old["env_id"] = new["env_id"]
    return [
        (name, old.get(name, "unset"), new.get(name, "unset"))
        for name in old | new
        if old.get(name, "unset") != new.get(name, "unset")
    ]
