"""A pytree of arrays as a folder: `arrays.safetensors`, and `manifest.json` which says what must be in it.

A save appears whole or not at all, whatever kills it. A load trusts nothing and never unpickles:
damage of any kind is a `CheckpointError` that names the file and the reason. One process at a time may write.
"""

import contextlib
import hashlib
import math
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from trustax.storage.manifest import (
    ARRAYS,
    MANIFEST,
    MANIFEST_SIZE_LIMIT,
    CheckpointError,
    check_size,
    read_manifest,
    regular_file_size,
    write_manifest,
)

TEMPORARY_PREFIX = ".tmp-"


def save(folder: Path | str, tree: Any, header: dict[str, Any]) -> None:
    """Write `tree`, and a `header` of JSON values, as `folder`, in place of the checkpoint that is there.

    If anything goes wrong the earlier checkpoint stays. Typed PRNG keys are leaves like any other.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp()) / "example"
    >>> save(folder, {"weights": jnp.arange(3.0)}, header={"step": 7})
    >>> read_header(folder)
    {'step': 7}
    >>> load(folder, {"weights": jnp.zeros(3)})
    {'weights': Array([0., 1., 2.], dtype=float32)}
    """
    folder = Path(os.path.realpath(folder))
    temporary = folder.with_name(TEMPORARY_PREFIX + uuid.uuid4().hex)
    leaves = _named_leaves(folder, tree)
    try:
        _refuse_to_replace_other_files(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        _write_files(temporary, leaves, header)
        _move_into_place(temporary, folder)
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(folder, f"not saved: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read_header(folder: Path | str) -> dict[str, Any]:
    """The header that was given to `save`, once the manifest has proved to be undamaged."""
    return read_manifest(readable(Path(folder)))["header"]


def load(folder: Path | str, template: Any, part: bool = False) -> Any:
    """The saved tree, which must have exactly the structure, shapes and dtypes of `template`.

    With `part` the template may lack branches of what was saved; only what it has is read.

    The template's leaves are arrays or `jax.ShapeDtypeStruct`s, of typed PRNG keys too. Leaves come back as
    NumPy arrays where the template has them, and as JAX arrays on the default device elsewhere.
    """
    folder = readable(Path(folder))
    manifest = read_manifest(folder)
    leaves = _named_leaves(folder, template)
    expected = {name: _describe(leaf) for name, leaf in leaves.items()}
    listed = {name: one for name, one in manifest["arrays"].items() if name in expected or not part}
    _check_same_arrays(folder / MANIFEST, listed, expected)
    check_size(folder, manifest)
    stored = _read_arrays(folder / ARRAYS, manifest["sha256"], expected, part)
    restored = [_restore(folder / ARRAYS, name, stored[name], leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(template), restored)


def _named_leaves(folder: Path, tree: Any) -> dict[str, Any]:
    """The leaves by their key paths, which are unique within a tree."""
    leaves = {jax.tree_util.keystr(path) or ".": leaf for path, leaf in jax.tree.leaves_with_path(tree)}
    for name, leaf in leaves.items():
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise CheckpointError(folder, f"leaf {name} is of type {type(leaf).__name__}, not an array")
    return leaves


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_implementation(leaf: Any) -> Any:
    """The PRNG of a typed key. `key_impl` takes no ShapeDtypeStruct, but it takes what one is traced as."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), leaf)
    return found[0]


def _describe(leaf: Any) -> dict[str, Any]:
    """The shape and dtype of what is stored for a leaf, and the name of the PRNG if it holds random keys."""
    if not _is_key(leaf):
        return {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
    data = jax.eval_shape(jax.random.key_data, leaf)
    return {"shape": list(data.shape), "dtype": str(data.dtype), "prng": str(_key_implementation(leaf))}


def _restore(path: Path, name: str, stored: np.ndarray, leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | np.generic):
        return stored
    array = jnp.array(stored)  # a copy: the caller may donate it
    if array.dtype != stored.dtype:
        raise CheckpointError(path, f"array {name} is {stored.dtype}, which JAX reads only with jax_enable_x64")
    return jax.random.wrap_key_data(array, impl=_key_implementation(leaf)) if _is_key(leaf) else array


def _write_files(folder: Path, leaves: dict[str, Any], header: dict[str, Any]) -> None:
    """Both files, each on the disk before the next step; the manifest is last, as it vouches for the rest."""
    arrays = {name: jax.random.key_data(leaf) if _is_key(leaf) else leaf for name, leaf in leaves.items()}
    host = {name: np.asarray(array, order="C") for name, array in jax.device_get(arrays).items()}
    save_file(host, folder / ARRAYS)
    _fsync(folder / ARRAYS)
    write_manifest(folder, header, {name: _describe(leaf) for name, leaf in leaves.items()}, jax.__version__)
    _fsync(folder / MANIFEST)
    # safetensors makes its file private to its owner; a run folder is shared as the umask says.
    shutil.copymode(folder / MANIFEST, folder / ARRAYS)
    _fsync(folder)
    check_size(folder, read_manifest(folder))  # what is saved can be loaded: the limits hold here too


def _fsync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle to a folder that could be flushed
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(folder: Path) -> Path:
    """Where the checkpoint that is being replaced waits until the new one is in its place."""
    return folder.with_name(f".{folder.name}.old")


def without_aside(aside: Path) -> Path:
    return aside.with_name(aside.name.removeprefix(".").removesuffix(".old"))


def readable(folder: Path) -> Path:
    """`folder`, or the one set aside for it where a save was killed between its two renames."""
    return _aside(folder) if not folder.exists() and _aside(folder).exists() else folder


def _refuse_to_replace_other_files(folder: Path) -> None:
    """To replace is to delete: whoever saves to the home folder by mistake must keep it."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(folder, "not saved: there is a file of that name")
    others = {entry.name for entry in folder.iterdir()} - {ARRAYS, MANIFEST} if folder.exists() else set()
    if others:
        raise CheckpointError(folder, f"not saved: the folder holds other files, such as {min(others)!r}")


def _move_into_place(temporary: Path, folder: Path) -> None:
    aside = _aside(folder)
    try:
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(folder, aside)
        os.rename(temporary, folder)
    except BaseException:
        if not folder.exists() and aside.exists():
            with contextlib.suppress(OSError):
                os.rename(aside, folder)
        raise
    _fsync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _check_same_arrays(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal to what the template demands, so nothing in the file can be anything else."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            stated, wanted = found.get(name, "missing"), expected.get(name, "no such array")
            raise CheckpointError(path, f"array {name[:99]} is {stated}, expected {wanted}")


def _read_arrays(path: Path, digest: str, expected: dict[str, Any], part: bool) -> dict[str, np.ndarray]:
    # Bounded by what the template needs, so that a hostile file costs no more time and memory than a good one
    # (and the names, which are in the manifest too). Of the rest of a file, nothing is read but its digest.
    needed = sum(math.prod(one["shape"]) * jnp.dtype(one["dtype"]).itemsize for one in expected.values())
    if not part and regular_file_size(path) > needed + MANIFEST_SIZE_LIMIT:
        raise CheckpointError(path, "far larger than the arrays that its manifest lists")
    try:
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise CheckpointError(path, "damaged: it does not have the SHA-256 that its manifest states")
        with safe_open(path, framework="numpy") as tensors:
            # Whoever can write a file can also write its digest: the content is compared once more.
            names = [name for name in tensors.keys() if name in expected or not part]  # noqa: SIM118
            shapes = {name: tensors.get_slice(name).get_shape() for name in names}
            if shapes != {name: one["shape"] for name, one in expected.items()}:
                raise CheckpointError(path, "the arrays are not those that its manifest lists")
            arrays = {name: tensors.get_tensor(name) for name in names}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise CheckpointError(path, f"no readable safetensors file: {error}") from error
    if any(str(arrays[name].dtype) != one["dtype"] for name, one in expected.items()):
        raise CheckpointError(path, "the dtypes are not those that its manifest lists")
    return arrays
