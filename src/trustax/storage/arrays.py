"""Read the arrays of a checkpoint from its file, or from the shards that the processes of a distributed run wrote."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from trustax.storage.manifest import (
    MANIFEST,
    MANIFEST_SIZE_LIMIT,
    CheckpointError,
    check_digest,
    check_size,
    regular_file_size,
    shards_of,
)

Description = dict[str, dict[str, Any]]
"""The shape and the dtype of each array, and the name of the PRNG of keys."""


class Rows(NamedTuple):
    """Some of the rows of a checkpoint: the learners of one process."""

    own: range
    total: int
    """the number of rows of all processes"""


def read_arrays(
    folder: Path, manifest: dict[str, Any], expected: Description, part: bool = False, rows: Rows | None = None
) -> dict[str, np.ndarray]:
    """Read the arrays of a checkpoint, which must be exactly the expected ones.

    With `part`, the checkpoint may have more arrays. With `rows`, only these rows are returned, read from the files
    that have them; arrays without axes have no rows.
    """
    listed = {name: one for name, one in manifest["arrays"].items() if name in expected or not part}
    whole = expected if rows is None else with_rows(expected, rows.total)
    _check_same_arrays(folder / MANIFEST, listed, whole)
    check_size(folder, manifest)
    shards = shards_of(manifest)
    if shards[0].stop < 0:
        stored = _read_file(folder / shards[0].file, shards[0].sha256, whole, part)
        return stored if rows is None else _take(stored, rows.own)
    rows = Rows(range(shards[-1].stop), shards[-1].stop) if rows is None else rows
    if shards[-1].stop != rows.total:
        raise CheckpointError(folder / MANIFEST, f"its shards have {shards[-1].stop} rows, not {rows.total}")
    parts = []
    for shard in shards:
        own = range(max(shard.start, rows.own.start) - shard.start, min(shard.stop, rows.own.stop) - shard.start)
        if own:
            described = with_rows(expected, shard.stop - shard.start)
            parts.append(_take(_read_file(folder / shard.file, shard.sha256, described, part), own))
    return {
        name: np.concatenate([one[name] for one in parts]) if array.ndim else array for name, array in parts[0].items()
    }


def with_rows(described: Description, num_rows: int) -> Description:
    """The description of the same arrays with another number of rows."""
    return {
        name: one | {"shape": [num_rows, *one["shape"][1:]] if one["shape"] else []} for name, one in described.items()
    }


def _take(arrays: dict[str, np.ndarray], rows: range) -> dict[str, np.ndarray]:
    return {name: array[rows.start : rows.stop] if array.ndim else array for name, array in arrays.items()}


def _check_same_arrays(path: Path, listed: Description, expected: Description) -> None:
    """Check that the manifest lists exactly the arrays of the template."""
    for name in sorted(listed.keys() | expected.keys()):
        if listed.get(name) != expected.get(name):
            actual, needed = listed.get(name, "missing"), expected.get(name, "no such array")
            raise CheckpointError(path, f"array {name[:99]} is {actual}, expected {needed}")


def _read_file(path: Path, digest: str, expected: Description, part: bool) -> dict[str, np.ndarray]:
    # The size is limited by the arrays of the template (and their names, which are in the manifest too), so that a
    # malicious file costs no more time and memory than a valid one. With `part`, other arrays are only hashed.
    needed = sum(math.prod(one["shape"]) * jnp.dtype(one["dtype"]).itemsize for one in expected.values())
    if not part and regular_file_size(path) > needed + MANIFEST_SIZE_LIMIT:
        raise CheckpointError(path, "far larger than the arrays that its manifest lists")
    check_digest(path, digest)
    try:
        with safe_open(path, framework="numpy") as tensors:
            # A malicious file may come with a matching digest, so the names, shapes and dtypes are checked again.
            names = [name for name in tensors.keys() if name in expected or not part]  # noqa: SIM118
            shapes = {name: tensors.get_slice(name).get_shape() for name in names}
            if shapes != {name: one["shape"] for name, one in expected.items()}:
                raise CheckpointError(path, "the arrays are not those that its manifest lists")
            arrays = {name: tensors.get_tensor(name) for name in names}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(path, f"not a readable safetensors file: {error}") from error
    if any(str(arrays[name].dtype) != one["dtype"] for name, one in expected.items()):
        raise CheckpointError(path, "the dtypes are not those that its manifest lists")
    return arrays
