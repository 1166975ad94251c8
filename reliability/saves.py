"""R4 and R6: a crash at any step of a save leaves a readable checkpoint, and one flipped bit is detected."""

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reliability.faults import Crash, failing_operation
from reliability.rows import Row
from trustax.storage.history import checkpoint_path, newest_valid, prune
from trustax.storage.manifest import ARRAYS, CheckpointError
from trustax.storage.pytree import load, read_header, save

PAGE = 4096
WAYS = ("before", "after", "dead")
"""An operation fails before or after its effect; or it and all later operations crash."""


def check_crashes(full: bool) -> Row:
    row = Row("R4", "a failure or a crash at every file operation of a save; the checkpoint before or after it loads")
    for how in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            crash_everywhere(row, Path(folder), how)
    return row


def crash_everywhere(row: Row, folder: Path, how: str) -> None:
    """Save over a checkpoint, and let each file operation in turn fail."""
    at, finished = 0, False
    while not finished:
        with row.trial(f"operation {at}, {how}"):
            finished = _crash_at(folder / str(at), at, how)
        if row.failures:
            return
        at += 1


def _crash_at(run_dir: Path, at: int, how: str) -> bool:
    """Whether the save ended before the operation that was to fail."""
    old, new = _tree(1), _tree(2)
    path = checkpoint_path(run_dir, 8)
    save(path, old, {"version": "old"})
    finished = False
    with failing_operation(at, how) as done, contextlib.suppress(Crash if how == "dead" else CheckpointError):
        save(path, new, {"version": "new"})
        finished = len(done) <= at
    assert newest_valid(run_dir) == path, "there is no readable checkpoint"
    assert _equal(load(path, old), old if read_header(path) == {"version": "old"} else new), "its arrays differ"
    if how == "before" and "rmdir" not in done:
        assert not list(path.parent.glob(".tmp-*")), "the save left files behind"
    save(path, new, {})
    prune(run_dir)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "the next save left files behind"
    assert _equal(load(path, old), new), "the next save failed"
    return finished


def check_flips(full: bool) -> Row:
    row = Row("R6", "one flipped bit in every 4 KiB page of a checkpoint is detected")
    with tempfile.TemporaryDirectory() as folder:
        flip_every_page(row, Path(folder) / "saved", 2**18 if full else 2**14)
    return row


def flip_every_page(row: Row, folder: Path, size: int) -> None:
    """Flip one random bit in each page of the array file of a checkpoint with `size` numbers, and load it."""
    tree = {"weights": jax.random.normal(jax.random.key(0), (size,))}
    save(folder, tree, {})
    path, generator = folder / ARRAYS, random.Random(0)
    content = path.read_bytes()
    for page in range(0, len(content), PAGE):
        position = generator.randrange(page, min(page + PAGE, len(content)))
        flipped = bytearray(content)
        flipped[position] ^= 1 << generator.randrange(8)
        path.write_bytes(flipped)
        try:
            load(folder, tree)
            row.count(f"the bit at byte {position} was not detected")
        except CheckpointError as error:
            row.count(None if "SHA-256" in str(error) else str(error))
    path.write_bytes(content)
    assert _equal(load(folder, tree), tree)


def _tree(fill: int) -> dict[str, Any]:
    return {"weights": np.full((64, 64), fill, np.float32), "keys": jax.random.split(jax.random.key(fill), 3)}


def _equal(one: Any, other: Any) -> bool:
    def data(leaf: Any) -> np.ndarray:
        return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return all(np.array_equal(data(a), data(b)) for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True))


CHECKS = {"R4": check_crashes, "R6": check_flips}
