"""Open the folder of a run: create it, or check that it holds the run to resume and find its newest checkpoint."""

from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError
from trustax.run import RUN_FILE, Run, from_json, read_run, settings_of, write_run
from trustax.storage import history, pytree
from trustax.storage.lease import is_lease
from trustax.storage.manifest import CheckpointError

KIND = "run"
"""What the header of a run's checkpoint says that it is."""


def open_folder(folder: Path, run: Run, resume: bool) -> Path | None:
    """Create the folder of a run, or check that it holds the run to resume; returns the newest sound checkpoint."""
    saved = None
    try:
        if (folder / RUN_FILE).exists():
            if not resume:
                raise TrustaxError(
                    f"{folder} already holds a run; resume it with resume=True (--resume) or choose another folder"
                )
            _check_same_run(read_run(folder), run, folder)
            saved = _newest_checkpoint(folder, run)
            _check_total_timesteps(folder, run, saved)
        elif folder.exists() and not (folder.is_dir() and _is_empty(folder)):
            raise TrustaxError(f"{folder} exists and is not a run folder; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_run(run, folder)
    except OSError as error:
        raise TrustaxError(f"{folder} cannot be written: {error.strerror or error}") from error
    return saved


def _newest_checkpoint(folder: Path, run: Run) -> Path | None:
    """The newest sound checkpoint, which must be one of this run."""
    saved = history.newest_sound_or_raise(folder)
    if saved is not None:
        _check_same_header(saved, pytree.read_header(saved), run)
    return saved


def _check_total_timesteps(folder: Path, run: Run, saved: Path | None) -> None:
    """Refuse a total that the run has already passed: its definition would not match its metrics."""
    steps = 0 if saved is None else history.step_of(saved)
    if steps > run.num_iterations * run.batch_size:
        raise TrustaxError(
            f"{folder} has already trained for {steps:,} steps, so total_timesteps cannot be "
            f"{run.total_timesteps:,}; choose a larger total, for example {2 * steps:,}"
        )


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
