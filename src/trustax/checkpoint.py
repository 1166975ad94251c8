"""A pytree of arrays as a folder: `arrays.safetensors`, and `manifest.json` which says what must be in it.

A save appears whole or not at all, whatever kills it. A load trusts nothing and never unpickles:
damage of any kind is a `CheckpointError` that names the file and the reason. One process at a time may write.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from trustax import __version__
from trustax.errors import TrustaxError

FORMAT = "trustax checkpoint"
VERSION = 1
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
FIELDS: dict[str, type] = dict.fromkeys(("format", "trustax", "jax", "sha256", "manifest_sha256"), str)
FIELDS |= {"version": int, "header": dict, "arrays": dict, "size": int}
MANIFEST_SIZE_LIMIT = 8 * 2**20
TEMPORARY_PREFIX = ".tmp-"


class CheckpointError(TrustaxError):
    """A checkpoint could not be written or is not what it should be: one line with the file and the why."""

    def __init__(self, path: Path, reason: object):
        # The reason may quote a hostile file: keep it to one line of a sensible length.
        super().__init__(f"{path}: {' '.join(str(reason).split())[:300]}")


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
    return _read_manifest(_readable(Path(folder)))["header"]


def load(folder: Path | str, template: Any, part: bool = False) -> Any:
    """The saved tree, which must have exactly the structure, shapes and dtypes of `template`.

    With `part` the template may lack branches of what was saved; only what it has is read.

    The template's leaves are arrays or `jax.ShapeDtypeStruct`s, of typed PRNG keys too. Leaves come back as
    NumPy arrays where the template has them, and as JAX arrays on the default device elsewhere.
    """
    folder = _readable(Path(folder))
    manifest = _read_manifest(folder)
    leaves = _named_leaves(folder, template)
    expected = {name: _describe(leaf) for name, leaf in leaves.items()}
    listed = {name: one for name, one in manifest["arrays"].items() if name in expected or not part}
    _check_same_arrays(folder / MANIFEST, listed, expected)
    _check_size(folder, manifest)
    stored = _read_arrays(folder / ARRAYS, manifest["sha256"], expected, part)
    restored = [_restore(folder / ARRAYS, name, stored[name], leaf) for name, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(template), restored)


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
            os.rename(_readable(folder), parent / (TEMPORARY_PREFIX + uuid.uuid4().hex))
        for leftover in [*parent.glob(TEMPORARY_PREFIX + "*"), *parent.glob(".step_*.old")]:
            if leftover.name.startswith(TEMPORARY_PREFIX) or _without_aside(leftover).exists():
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(parent, f"could not delete old checkpoints: {error}") from error


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
    with open(folder / ARRAYS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    content = {
        "format": FORMAT,
        "version": VERSION,
        "trustax": __version__,
        "jax": jax.__version__,
        "header": header,
        "arrays": {name: _describe(leaf) for name, leaf in leaves.items()},
        "size": os.path.getsize(folder / ARRAYS),
        "sha256": digest,
    }
    text = json.dumps(content | {"manifest_sha256": _content_digest(content)}, indent=1, allow_nan=False)
    (folder / MANIFEST).write_text(text, encoding="ascii")
    _fsync(folder / MANIFEST)
    # safetensors makes its file private to its owner; a run folder is shared as the umask says.
    shutil.copymode(folder / MANIFEST, folder / ARRAYS)
    _fsync(folder)
    _check_size(folder, _read_manifest(folder))  # what is saved can be loaded: the limits hold here too


def _content_digest(content: dict[str, Any]) -> str:
    """A digest of JSON values that does not depend on how they were written down."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


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


def _without_aside(aside: Path) -> Path:
    return aside.with_name(aside.name.removeprefix(".").removesuffix(".old"))


def _readable(folder: Path) -> Path:
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


def _whole_checkpoints(run_dir: Path) -> Iterator[Path]:
    """The run's checkpoints that are whole as far as can be told without reading the arrays, newest first."""
    parent = checkpoint_path(run_dir, 0).parent
    folders = {*parent.glob("step_*"), *map(_without_aside, parent.glob(".step_*.old"))}
    steps = {int(folder.name[5:]): folder for folder in folders if re.fullmatch(r"step_\d{12,18}", folder.name)}
    for _, folder in sorted(steps.items(), reverse=True):
        with contextlib.suppress(CheckpointError):
            _check_size(_readable(folder), _read_manifest(_readable(folder)))
            yield folder


def _regular_file_size(path: Path) -> int:
    """The size of a file that is one: a link may lead out of the folder, and a pipe would block for ever."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(path, getattr(error, "strerror", None) or error) from error
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(path, "not a regular file")
    return status.st_size


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once its fields, their types and the digest of its content have been checked."""
    path = folder / MANIFEST
    if _regular_file_size(path) > MANIFEST_SIZE_LIMIT:
        raise CheckpointError(path, f"larger than {MANIFEST_SIZE_LIMIT} bytes")
    try:
        manifest = json.loads(path.read_bytes(), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        _check_fields(path, manifest)
        digest = _content_digest({name: value for name, value in manifest.items() if name != "manifest_sha256"})
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(path, f"no readable JSON: {error}") from error
    if digest != manifest["manifest_sha256"]:
        raise CheckpointError(path, "damaged: its content does not have the SHA-256 that it states")
    return manifest


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return fields


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _check_fields(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(path, "not the manifest of a Trustax checkpoint")
    if manifest.get("version") != VERSION:
        newer = f"format version {manifest.get('version')!r}, but Trustax {__version__} reads version {VERSION}"
        raise CheckpointError(path, newer)
    if manifest.keys() != FIELDS.keys() or not all(isinstance(manifest[k], FIELDS[k]) for k in FIELDS):
        raise CheckpointError(path, f"its fields are not those of format version {VERSION}")


def _check_same_arrays(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal to what the template demands, so nothing in the file can be anything else."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            stated, wanted = found.get(name, "missing"), expected.get(name, "no such array")
            raise CheckpointError(path, f"array {name[:99]} is {stated}, expected {wanted}")


def _check_size(folder: Path, manifest: dict[str, Any]) -> None:
    size = _regular_file_size(folder / ARRAYS)
    if size != manifest["size"]:
        raise CheckpointError(folder / ARRAYS, f"{size} bytes, but its manifest says {manifest['size']}")


def _read_arrays(path: Path, digest: str, expected: dict[str, Any], part: bool) -> dict[str, np.ndarray]:
    # Bounded by what the template needs, so that a hostile file costs no more time and memory than a good one
    # (and the names, which are in the manifest too). Of the rest of a file, nothing is read but its digest.
    needed = sum(math.prod(one["shape"]) * jnp.dtype(one["dtype"]).itemsize for one in expected.values())
    if not part and _regular_file_size(path) > needed + MANIFEST_SIZE_LIMIT:
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
