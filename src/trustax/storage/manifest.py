"""`manifest.json`: lists the arrays of a checkpoint, with digests that detect damage to the arrays and the manifest.

The manifest is read as untrusted input: limited in size, strict JSON, exactly the fields of its format, and a digest of
its own content.
"""

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, NamedTuple

from trustax import __version__
from trustax.errors import TrustaxError
from trustax.storage.reading import open_regular, read_limited

FORMAT = "trustax checkpoint"
VERSION = 1
SHARDED_VERSION = 2
"""The version of a checkpoint whose rows are divided over several files, one for each process of a distributed run."""
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
FIELDS: dict[str, type] = dict.fromkeys(("format", "trustax", "jax", "sha256", "manifest_sha256"), str)
FIELDS |= {"version": int, "header": dict, "arrays": dict, "size": int}
SHARDED_FIELDS = {name: kind for name, kind in FIELDS.items() if name not in ("sha256", "size")} | {"shards": list}
MANIFEST_SIZE_LIMIT = 8 * 2**20


class Shard(NamedTuple):
    """A file with some rows of the arrays of a checkpoint."""

    file: str
    start: int
    """the first row"""
    stop: int
    """the row after the last one; -1 if the file has all rows"""
    size: int
    sha256: str


class CheckpointError(TrustaxError):
    """A checkpoint could not be written or is not valid. The message is one line with the file and the reason."""

    def __init__(self, path: Path, reason: object):
        # The reason may quote an untrusted file: keep it to one line of limited length.
        super().__init__(f"{path}: {' '.join(str(reason).split())[:300]}")


def write_manifest(folder: Path, header: dict[str, Any], arrays: dict[str, Any], jax_version: str) -> None:
    """Write the manifest for the arrays in the folder."""
    digests = {"size": os.path.getsize(folder / ARRAYS), "sha256": file_digest(folder / ARRAYS)}
    _write(folder, {"version": VERSION, "jax": jax_version, "header": header, "arrays": arrays} | digests)


def write_sharded_manifest(
    folder: Path, header: dict[str, Any], arrays: dict[str, Any], shards: list[Shard], jax_version: str
) -> None:
    """Write the manifest for arrays whose rows are divided over several files."""
    described = {"version": SHARDED_VERSION, "jax": jax_version, "header": header, "arrays": arrays}
    _write(folder, described | {"shards": [list(shard) for shard in shards]})


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(folder: Path, described: dict[str, Any]) -> None:
    content = {"format": FORMAT, "trustax": __version__} | described
    text = json.dumps(content | {"manifest_sha256": content_digest(content)}, indent=1, allow_nan=False)
    (folder / MANIFEST).write_text(text, encoding="ascii")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and check its fields, their types and the digest of its content."""
    path = folder / MANIFEST
    try:
        content = read_limited(path, MANIFEST_SIZE_LIMIT, follow_links=False)
        manifest = json.loads(
            str(content, "utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
        _check_fields(path, manifest)
        digest = content_digest({name: value for name, value in manifest.items() if name != "manifest_sha256"})
    except OSError as error:
        raise CheckpointError(path, error.strerror or error) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, f"cannot be read as JSON: {error}") from error
    if digest != manifest["manifest_sha256"]:
        raise CheckpointError(path, "damaged: its content does not match its SHA-256 digest")
    return manifest


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return fields


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _check_fields(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(path, "not the manifest of a Trustax checkpoint")
    version = manifest.get("version")
    if version not in (VERSION, SHARDED_VERSION) or isinstance(version, bool):
        reason = f"format version {version!r}, but Trustax {__version__} reads versions {VERSION} and {SHARDED_VERSION}"
        raise CheckpointError(path, reason)
    fields = FIELDS if version == VERSION else SHARDED_FIELDS
    if manifest.keys() != fields.keys() or not all(isinstance(manifest[k], fields[k]) for k in fields):
        raise CheckpointError(path, f"its fields are not those of format version {version}")
    if version == SHARDED_VERSION and not _are_shards(manifest["shards"]):
        raise CheckpointError(path, "its shards are not consecutive rows of the arrays")


def _are_shards(entries: list[Any]) -> bool:
    """Whether entries are shards that follow each other, each in a file of its own in the checkpoint's folder."""
    kinds = (str, int, int, int, str)
    row = 0
    for number, entry in enumerate(entries):
        if not isinstance(entry, list) or [type(value) for value in entry] != list(kinds):
            return False
        shard = Shard(*entry)
        if shard.file != shard_name(number) or shard.start != row or shard.stop <= row or shard.size < 0:
            return False
        row = shard.stop
    return row > 0


def shard_name(number: int) -> str:
    return f"arrays-{number:05d}.safetensors"


def is_checkpoint_file(name: str) -> bool:
    """Whether a file belongs to a checkpoint, by its name.

    >>> is_checkpoint_file("manifest.json"), is_checkpoint_file("arrays-00001.safetensors"), is_checkpoint_file("a.py")
    (True, True, False)
    """
    return name in (ARRAYS, MANIFEST) or re.fullmatch(r"arrays-[0-9]{5}\.safetensors", name) is not None


def shards_of(manifest: dict[str, Any]) -> list[Shard]:
    """The files of a checkpoint."""
    if manifest["version"] == VERSION:
        return [Shard(ARRAYS, 0, -1, manifest["size"], manifest["sha256"])]
    return [Shard(*entry) for entry in manifest["shards"]]


def check_size(folder: Path, manifest: dict[str, Any]) -> None:
    """Check that every file of a checkpoint is there and has its size."""
    for shard in shards_of(manifest):
        size = regular_file_size(folder / shard.file)
        if size != shard.size:
            raise CheckpointError(folder / shard.file, f"{size} bytes, but its manifest says {shard.size}")


def check_digest(path: Path, digest: str) -> None:
    """Check that the arrays are those that were saved, bit for bit."""
    try:
        with open_regular(path, follow_links=False) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(path, error.strerror or error) from error
    if found != digest:
        raise CheckpointError(path, "damaged: it does not match the SHA-256 digest in its manifest")


def check_sound(folder: Path) -> None:
    """Check the manifest of a checkpoint, and the size and the digest of its arrays."""
    manifest = read_manifest(folder)
    check_size(folder, manifest)
    for shard in shards_of(manifest):
        check_digest(folder / shard.file, shard.sha256)


def number_of_rows(manifest: dict[str, Any], name: str) -> int:
    """The length of the first axis of an array that the manifest lists; an array larger than its file is refused."""
    rows, columns = manifest["arrays"][name]["shape"]
    size = sum(shard.size for shard in shards_of(manifest))
    if not (isinstance(rows, int) and isinstance(columns, int) and columns > 0 and rows * columns <= size):
        raise ValueError(f"an array {name} of shape {rows} x {columns} in {size} bytes")
    return rows


def content_digest(content: dict[str, Any]) -> str:
    """A digest of JSON values that does not depend on their formatting."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def regular_file_size(path: Path) -> int:
    """The size of a regular file. Links are refused, which may lead out of the folder, and pipes, which would block."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(path, getattr(error, "strerror", None) or error) from error
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(path, "not a regular file")
    return status.st_size
