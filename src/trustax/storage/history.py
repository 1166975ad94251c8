"""The checkpoints of a run: their paths, the newest valid one, and the deletion of old ones."""

import contextlib
import math
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from trustax.errors import TrustaxError
from trustax.storage.manifest import CheckpointError, check_size, check_sound, read_manifest
from trustax.storage.pytree import TEMPORARY_PREFIX, folder_or_backup, without_backup_suffix


def checkpoint_path(run_dir: Path | str, step: int) -> Path:
    """The path of a run's checkpoint at `step`; sorting the names sorts the steps."""
    return Path(run_dir) / "checkpoints" / f"step_{step:012d}"


def step_of(path: Path) -> int:
    """The step of a checkpoint in a run's folder.

    >>> step_of(checkpoint_path("runs/a", 8192))
    8192
    """
    return int(path.name.removeprefix("step_"))


def newest_valid(run_dir: Path | str) -> Path | None:
    """The newest checkpoint with a valid manifest and an array file of the right size; None if there is none."""
    return next(_valid_checkpoints(Path(run_dir)), None)


def newest_sound_or_raise(run_dir: Path | str) -> Path | None:
    """The newest checkpoint whose arrays match their digest; None if the run has no checkpoints.

    Damaged newer checkpoints are reported on stderr. If all checkpoints are damaged, an error is raised.
    """
    damage = None
    for folder in _checkpoint_folders(Path(run_dir)):
        try:
            check_sound(folder_or_backup(folder))
        except CheckpointError as error:
            damage = damage or error
            continue
        if damage:
            print(f"{damage}; using {folder.name} instead", file=sys.stderr)
        return folder
    if damage:
        parent = checkpoint_path(run_dir, 0).parent
        raise TrustaxError(
            f"{damage}; all checkpoints of this run are damaged: move {parent} away to start again from step 0"
        )
    return None


def prune(run_dir: Path | str, keep: int = 2, up_to: int | float = math.inf) -> None:
    """Delete all but the newest `keep` valid checkpoints, and the leftovers of saves that were killed.

    Checkpoints after the step `up_to` do not count: the run went back behind them because they are damaged.
    Checkpoints that cannot be read are not deleted: a newer version of Trustax may have written them.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    parent = checkpoint_path(run_dir, 0).parent
    try:
        for folder in [one for one in _valid_checkpoints(Path(run_dir)) if step_of(one) <= up_to][keep:]:
            # Rename first: if the deletion is killed, a partly deleted folder must not look like a checkpoint.
            os.rename(folder_or_backup(folder), parent / (TEMPORARY_PREFIX + uuid.uuid4().hex))
        for leftover in [*parent.glob(TEMPORARY_PREFIX + "*"), *parent.glob(".step_*.old")]:
            if leftover.name.startswith(TEMPORARY_PREFIX) or without_backup_suffix(leftover).exists():
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(parent, f"could not delete old checkpoints: {error}") from error


def remove_unfinished_agents(run_dir: Path) -> None:
    """Delete what killed saves of agents have left in the folder of a run.

    No other process may be saving agents there: a run calls it when it has claimed its folder and not yet started.
    """
    for place in ("", "agents/", "agents/*/"):
        for leftover in run_dir.glob(place + TEMPORARY_PREFIX + "[0-9a-f]" * 32):
            shutil.rmtree(leftover, ignore_errors=True)


def _valid_checkpoints(run_dir: Path) -> Iterator[Path]:
    """The valid checkpoints of a run, newest first. The contents of the arrays are not checked."""
    for folder in _checkpoint_folders(run_dir):
        with contextlib.suppress(CheckpointError):
            check_size(folder_or_backup(folder), read_manifest(folder_or_backup(folder)))
            yield folder


def _checkpoint_folders(run_dir: Path) -> list[Path]:
    """All checkpoints of a run, valid or not, newest first."""
    parent = checkpoint_path(run_dir, 0).parent
    folders = {*parent.glob("step_*"), *map(without_backup_suffix, parent.glob(".step_*.old"))}
    named = [folder for folder in folders if re.fullmatch(r"step_\d{12,18}", folder.name)]
    return sorted(named, key=step_of, reverse=True)
