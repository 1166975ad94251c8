"""`manifest.json`: lists the arrays of a checkpoint, with digests that detect damage to the arrays and the manifest.

The manifest is read as untrusted input: limited in size, strict JSON, exactly the fields of its format, and a digest of
its own content.
"""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from trustax import __version__
from trustax.errors import TrustaxError
from trustax.storage.reading import open_regular, read_limited

FORMAT = "trustax checkpoint"
VERSION = 1
ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
FIELDS: dict[str, type] = dict.fromkeys(("format", "trustax", "jax", "sha256", "manifest_sha256"), str)
FIELDS |= {"version": int, "header": dict, "arrays": dict, "size": int}
MANIFEST_SIZE_LIMIT = 8 * 2**20


class CheckpointError(TrustaxError):
    """A checkpoint could not be written or is not valid. The message is one line with the file and the reason."""

    def __init__(self, path: Path, reason: object):
        # The reason may quote an untrusted file: keep it to one line of limited length.
        super().__init__(f"{path}: {' '.join(str(reason).split())[:300]}")


def write_manifest(folder: Path, header: dict[str, Any], arrays: dict[str, Any], jax_version: str) -> None:
    """Write the manifest for the arrays in the folder."""
    with open(folder / ARRAYS, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    content = {
        "format": FORMAT,
        "version": VERSION,
        "trustax": __version__,
        "jax": jax_version,
        "header": header,
        "arrays": arrays,
        "size": os.path.getsize(folder / ARRAYS),
        "sha256": digest,
    }
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
    if manifest.get("version") != VERSION:
        reason = f"format version {manifest.get('version')!r}, but Trustax {__version__} reads version {VERSION}"
        raise CheckpointError(path, reason)
    if manifest.keys() != FIELDS.keys() or not all(isinstance(manifest[k], FIELDS[k]) for k in FIELDS):
        raise CheckpointError(path, f"its fields are not those of format version {VERSION}")


def check_size(folder: Path, manifest: dict[str, Any]) -> None:
    size = regular_file_size(folder / ARRAYS)
    if size != manifest["size"]:
        raise CheckpointError(folder / ARRAYS, f"{size} bytes, but its manifest says {manifest['size']}")


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
    check_digest(folder / ARRAYS, manifest["sha256"])


def number_of_rows(manifest: dict[str, Any], name: str) -> int:
    """The length of the first axis of an array that the manifest lists; an array larger than its file is refused."""
    rows, columns = manifest["arrays"][name]["shape"]
    if not (isinstance(rows, int) and isinstance(columns, int) and columns > 0 and rows * columns <= manifest["size"]):
        raise ValueError(f"an array {name} of shape {rows} x {columns} in a file of {manifest['size']} bytes")
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
