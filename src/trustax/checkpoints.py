"""The checkpoints of a run: where they stand, which is the newest, which may go."""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from trustax.checkpoint import TEMPORARY_PREFIX, readable, without_aside
from trustax.manifest import CheckpointError, check_size, read_manifest


def checkpoint_path(run_dir: Path | str, step: int) -> Path:
    """Where a run keeps its checkpoint of `step`; names sort as steps do."""
    return Path(run_dir) / "checkpoints" / f"step_{step:012d}"


def latest(run_dir: Path | str) -> Path | None:
    """A run's newest checkpoint whose manifest is valid and whose arrays are all there; None without one."""
    return next(_whole_checkpoints(Path(run_dir)), None)


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
    parent = checkpoint_path(run_dir, 0).parent
    folders = {*parent.glob("step_*"), *map(without_aside, parent.glob(".step_*.old"))}
    steps = {int(folder.name[5:]): folder for folder in folders if re.fullmatch(r"step_\d{12,18}", folder.name)}
    for _, folder in sorted(steps.items(), reverse=True):
        with contextlib.suppress(CheckpointError):
            check_size(readable(folder), read_manifest(readable(folder)))
            yield folder
