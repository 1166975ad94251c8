"""The checkpoints of a run: where they stand, which is the newest, which may go."""

import contextlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from trustax.errors import TrustaxError
from trustax.storage.manifest import CheckpointError, check_size, read_manifest
from trustax.storage.pytree import TEMPORARY_PREFIX, readable, without_aside


def checkpoint_path(run_dir: Path | str, step: int) -> Path:
    """Where a run keeps its checkpoint of `step`; names sort as steps do."""
    return Path(run_dir) / "checkpoints" / f"step_{step:012d}"


def step_of(path: Path) -> int:
    """The step of a checkpoint in a run's folder.

    >>> step_of(checkpoint_path("runs/a", 8192))
    8192
    """
    return int(path.name.removeprefix("step_"))


def latest(run_dir: Path | str) -> Path | None:
    """A run's newest checkpoint whose manifest is valid and whose arrays are all there; None without one."""
    return next(_whole_checkpoints(Path(run_dir)), None)


def newest(run_dir: Path | str) -> Path | None:
    """`latest`, saying so where newer ones are damaged; refused if all of them are."""
    damage = None
    for folder in _folders(Path(run_dir)):
        try:
            _require_whole(folder)
        except CheckpointError as error:
            damage = damage or error
            continue
        if damage:
            print(f"{damage}; {folder.name} is taken instead", file=sys.stderr)
        return folder
    if damage:
        parent = checkpoint_path(run_dir, 0).parent
        raise TrustaxError(f"{damage}; no checkpoint of this run is whole: move {parent} away, and it begins anew")
    return None


def prune(run_dir: Path | str, keep: int = 2) -> None:
    """Delete all but the newest `keep` whole checkpoints, and what saves that were killed left behind.

    A checkpoint that cannot be read is no one's to delete: a newer Trustax may have written it.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    parent = checkpoint_path(run_dir, 0).parent
    try:
        for folder in list(_whole_checkpoints(Path(run_dir)))[keep:]:
            # Renamed first: a deletion that is killed half-way must not look like a checkpoint.
            os.rename(readable(folder), parent / (TEMPORARY_PREFIX + uuid.uuid4().hex))
        for leftover in [*parent.glob(TEMPORARY_PREFIX + "*"), *parent.glob(".step_*.old")]:
            if leftover.name.startswith(TEMPORARY_PREFIX) or without_aside(leftover).exists():
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(parent, f"could not delete old checkpoints: {error}") from error


def _whole_checkpoints(run_dir: Path) -> Iterator[Path]:
    """The run's checkpoints that are whole as far as can be told without reading the arrays, newest first."""
    for folder in _folders(run_dir):
        with contextlib.suppress(CheckpointError):
            _require_whole(folder)
            yield folder


def _require_whole(folder: Path) -> None:
    check_size(readable(folder), read_manifest(readable(folder)))


def _folders(run_dir: Path) -> list[Path]:
    """All of the run's checkpoints, whole or not, newest first."""
    parent = checkpoint_path(run_dir, 0).parent
    folders = {*parent.glob("step_*"), *map(without_aside, parent.glob(".step_*.old"))}
    named = [folder for folder in folders if re.fullmatch(r"step_\d{12,18}", folder.name)]
    return sorted(named, key=step_of, reverse=True)
