"""Save a pytree of arrays as a folder with `arrays.safetensors` and `manifest.json`, which lists the arrays; load it.

Saving is atomic, even if the process is killed. Loading validates everything and never unpickles: any damage raises a
`CheckpointError` that names the file and the reason. Only one process at a time may write.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from trustax.storage.arrays import Rows, read_arrays, with_rows
from trustax.storage.manifest import (
    ARRAYS,
    MANIFEST,
    CheckpointError,
    Shard,
    check_size,
    file_digest,
    is_checkpoint_file,
    read_manifest,
    shard_name,
    write_manifest,
    write_sharded_manifest,
)

TEMPORARY_PREFIX = ".tmp-"


def save(folder: Path | str, tree: Any, header: dict[str, Any]) -> None:
    """Write `tree` and a `header` of JSON values to `folder`, replacing an existing checkpoint.

    If saving fails, the existing checkpoint remains. Leaves may be typed PRNG keys.

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
    """Read the header that was given to `save`, after checking the manifest for damage."""
    return read_manifest(folder_or_backup(Path(folder)))["header"]


def load(folder: Path | str, template: Any, part: bool = False, rows: Rows | None = None) -> Any:
    """Load a saved tree, which must have exactly the structure, shapes and dtypes of `template`.

    With `part`, the template may lack branches of the saved tree; only the branches of the template are read. With
    `rows`, the template has these rows of the saved arrays.

    The leaves of the template are arrays or `jax.ShapeDtypeStruct`s, including typed PRNG keys. A leaf is loaded as a
    NumPy array if it is one in the template, and as a JAX array on the default device otherwise.
    """
    folder = folder_or_backup(Path(folder))
    manifest = read_manifest(folder)
    leaves = _named_leaves(folder, template)
    expected = {name: _describe(leaf) for name, leaf in leaves.items()}
    stored = read_arrays(folder, manifest, expected, part, rows)
    restored = [_restore(folder, name, stored[name], leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(template), restored)


def copy_rows(source: Path | str, target: Path | str, rows: Sequence[int], header: dict[str, Any]) -> None:
    """Write a checkpoint with some rows of the arrays of another one. Arrays without axes are copied.

    No template is needed, and nothing is put on a device.
    """
    folder, target = folder_or_backup(Path(source)), Path(os.path.realpath(target))
    manifest = read_manifest(folder)
    stored = read_arrays(folder, manifest, manifest["arrays"])
    arrays = {name: array[list(rows)] if array.ndim else array for name, array in stored.items()}
    listed = {name: one | {"shape": list(arrays[name].shape)} for name, one in manifest["arrays"].items()}
    temporary = target.with_name(TEMPORARY_PREFIX + uuid.uuid4().hex)
    try:
        temporary.mkdir(parents=True)
        _write_arrays(temporary, arrays, listed, header)
        _move_into_place(temporary, target)
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(target, f"not saved: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    """The PRNG of a typed key. `key_impl` does not accept a ShapeDtypeStruct, but it accepts the tracer of one."""
    found = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), leaf)
    return found[0]


def _describe(leaf: Any) -> dict[str, Any]:
    """The shape and dtype of the stored array of a leaf, and the name of the PRNG if the leaf holds keys."""
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
    _write_arrays(folder, _on_host(leaves), {name: _describe(leaf) for name, leaf in leaves.items()}, header)


def _on_host(leaves: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays = {name: jax.random.key_data(leaf) if _is_key(leaf) else leaf for name, leaf in leaves.items()}
    return {name: np.asarray(array, order="C") for name, array in jax.device_get(arrays).items()}


def _write_arrays(folder: Path, arrays: dict[str, np.ndarray], listed: dict[str, Any], header: dict[str, Any]) -> None:
    """Write both files, and flush each to disk. The manifest comes last, since it has the digest of the arrays."""
    save_file(arrays, folder / ARRAYS)
    _fsync(folder / ARRAYS)
    write_manifest(folder, header, listed, jax.__version__)
    _fsync(folder / MANIFEST)
    # safetensors makes its file readable by the owner only; the files of a run follow the umask.
    shutil.copymode(folder / MANIFEST, folder / ARRAYS)
    _fsync(folder)
    check_size(folder, read_manifest(folder))  # the checkpoint can be loaded, within the size limit


def write_shard(folder: Path, tree: Any, number: int, rows: range) -> Shard:
    """Write some rows of the arrays of a checkpoint to a file, as one of several processes."""
    path = folder / shard_name(number)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(_on_host(_named_leaves(folder, tree)), path)
        path.chmod(folder.stat().st_mode & 0o666)  # as the umask allows; safetensors lets only the owner read it
        _fsync(path)
        return Shard(path.name, rows.start, rows.stop, path.stat().st_size, file_digest(path))
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(folder, f"not saved: {error}") from error


def finish_shards(
    temporary: Path, folder: Path, tree: Any, header: dict[str, Any], shards: Sequence[Shard], num_rows: int
) -> None:
    """Write the manifest for the shards that all processes have written to `temporary`, and move it to `folder`."""
    folder = Path(os.path.realpath(folder))
    leaves = _named_leaves(folder, tree)
    listed = {name: _describe(leaf) for name, leaf in leaves.items()}
    try:
        _refuse_to_replace_other_files(folder)
        write_sharded_manifest(temporary, header, with_rows(listed, num_rows), list(shards), jax.__version__)
        _fsync(temporary / MANIFEST)
        _fsync(temporary)
        check_size(temporary, read_manifest(temporary))  # every shard is there
        _move_into_place(temporary, folder)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(folder, f"not saved: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fsync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot flush a folder
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _backup_path(folder: Path) -> Path:
    """The path of the old checkpoint while a new one replaces it."""
    return folder.with_name(f".{folder.name}.old")


def without_backup_suffix(backup: Path) -> Path:
    """The folder that a backup belongs to."""
    return backup.with_name(backup.name.removeprefix(".").removesuffix(".old"))


def folder_or_backup(folder: Path) -> Path:
    """`folder`, or its backup if a save was killed between its two renames."""
    return _backup_path(folder) if not folder.exists() and _backup_path(folder).exists() else folder


def _refuse_to_replace_other_files(folder: Path) -> None:
    """Replacing deletes the old folder, which may be the home folder by mistake, so refuse other files."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(folder, "not saved: a file with this name exists")
    names = [entry.name for entry in folder.iterdir()] if folder.exists() else []
    others = [name for name in names if not is_checkpoint_file(name)]
    if others:
        raise CheckpointError(folder, f"not saved: the folder contains other files, such as {min(others)!r}")


def _move_into_place(temporary: Path, folder: Path) -> None:
    backup = _backup_path(folder)
    try:
        if folder.exists():
            shutil.rmtree(backup, ignore_errors=True)
            os.rename(folder, backup)
        os.rename(temporary, folder)
    except BaseException:
        if not folder.exists() and backup.exists():
            with contextlib.suppress(OSError):
                os.rename(backup, folder)
        raise
    _fsync(folder.parent)
    shutil.rmtree(backup, ignore_errors=True)
