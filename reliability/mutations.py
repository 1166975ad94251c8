"""Ways to damage the files of a run or an agent, or to make them hostile; each is a function of a generator and a path.

Mutations of a file change its bytes. Mutations of a checkpoint change its content and then correct its digests, as an
attacker would.
"""

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from trustax.storage.manifest import ARRAYS, MANIFEST, content_digest

CANARY = "TRUSTAX_FUZZ_CANARY"
"""The environment variable with the path of a file that a payload creates if it is executed."""


class Payload:
    """Creates the canary when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f'touch "${CANARY}"',)


JUNK: list[Any] = [
    None,
    -1,
    True,
    1.5,
    10**400,
    2 * 10**8,
    "..",
    "abc",
    "../../etc/passwd",
    [],
    {},
    [[1.0]],
    [1] * 3000,
    {"__reduce__": ["os.system", "id"]},
]
SNIPPETS = [b"NaN", b"Infinity", b"1e999", b"{", b'"', b"\x00", b"[[[[", b"\n", b"\xff\xfe", b'"a": 1, ', b"9" * 5000]

Mutation = Callable[[Random, Path], None]


def truncate(generator: Random, path: Path) -> None:
    os.truncate(path, generator.randrange(path.stat().st_size))


def flip(generator: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def swap(generator: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    first, second = generator.randrange(len(content)), generator.randrange(len(content))
    content[first], content[second] = content[second], content[first]
    path.write_bytes(content)


def grow(generator: Random, path: Path) -> None:
    path.write_bytes(path.read_bytes() + generator.randbytes(generator.randrange(1, 999)))


def insert(generator: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    position = generator.randrange(len(content))
    content[position:position] = generator.choice(SNIPPETS)
    path.write_bytes(content)


def noise(generator: Random, path: Path) -> None:
    path.write_bytes(generator.randbytes(path.stat().st_size))


def delete(generator: Random, path: Path) -> None:
    path.unlink()


def nest(generator: Random, path: Path) -> None:
    opening, closing = generator.choice([(b"[", b"]"), (b'{"a":', b"}")])
    path.write_bytes(opening * 100_000 + b"1" + closing * 100_000 + b"\n")


def unpickle(generator: Random, path: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(), protocol=generator.choice([0, 2, 4])))


def endless(generator: Random, path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(generator: Random, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(generator: Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(generator: Random, path: Path) -> None:
    outside = path.with_name(f"outside-{path.name}")
    path.rename(outside)
    path.symlink_to(outside)


def sparse(generator: Random, path: Path) -> None:
    os.truncate(path, 10 * 2**30)


def repeat(generator: Random, path: Path) -> None:
    """Repeat a line, which makes a key or a record occur twice."""
    lines = path.read_bytes().splitlines(keepends=True)
    number = generator.randrange(len(lines))
    path.write_bytes(b"".join([*lines[:number], lines[number], *lines[number:]]))


def change_value(generator: Random, path: Path) -> None:
    """Replace a value anywhere in a JSON file, or in a line of it."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    number = generator.randrange(len(lines))
    content = json.loads(lines[number])
    _replace_somewhere(generator, content)
    lines[number] = json.dumps(content)
    path.write_text("".join(f"{line}\n" for line in lines))


FILE_MUTATIONS: list[Mutation] = [
    *(truncate, flip, swap, grow, insert, noise, delete, nest, unpickle),
    *(endless, pipe, folder, link, sparse, repeat),
]
JSON_MUTATIONS: list[Mutation] = [change_value]


def change_header(generator: Random, checkpoint: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        _replace_somewhere(generator, manifest["header"])

    _rewrite(checkpoint, change)


def change_arrays(generator: Random, checkpoint: Path) -> None:
    """Change what the manifest says of the arrays: a wrong shape, dtype or name."""

    def change(manifest: dict[str, Any]) -> None:
        arrays = manifest["arrays"]
        name = generator.choice(list(arrays))
        kind = generator.choice(["value", "rename", "exchange", "remove"])
        if kind == "value":
            _replace_somewhere(generator, arrays[name])
        elif kind == "exchange":
            other = generator.choice(list(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
        else:
            entry = arrays.pop(name)
            arrays |= {"../../../etc/passwd": entry} if kind == "rename" else {}

    _rewrite(checkpoint, change)


def change_safetensors(generator: Random, checkpoint: Path) -> None:
    """Change the header of `arrays.safetensors`: its length, or one of its characters."""
    path = checkpoint / ARRAYS
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    if generator.random() < 0.5:
        content[:8] = generator.choice([0, 1, size - 1, size + 1, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
    else:
        content[generator.randrange(8, 8 + size)] = generator.choice(b'0123456789",:{}[]FIUB\x00\xff')
    path.write_bytes(content)
    _rewrite(checkpoint, lambda manifest: None)


def many_layers(generator: Random, checkpoint: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        header = manifest["header"]
        (header["run"]["algorithm"] if "run" in header else header)["hidden_sizes"] = [1] * 3000

    _rewrite(checkpoint, change)


def many_seeds(generator: Random, checkpoint: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["header"].get("run", manifest["header"])["num_seeds"] = 200_000_000
        for entry in manifest["arrays"].values():
            if entry["shape"]:
                entry["shape"][0] = 200_000_000

    _rewrite(checkpoint, change)


CHECKPOINT_MUTATIONS: list[Mutation] = [change_header, change_arrays, change_safetensors, many_layers, many_seeds]


def _replace_somewhere(generator: Random, content: Any) -> None:
    """Replace a value at any depth."""
    place = content
    while True:
        key = generator.choice(list(place)) if isinstance(place, dict) else generator.randrange(len(place))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or generator.random() < 0.2:
            place[key] = generator.choice(JUNK)
            return
        place = inner


def _rewrite(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, and correct its digests."""
    path = checkpoint / MANIFEST
    manifest = json.loads(path.read_text())
    arrays = (checkpoint / ARRAYS).read_bytes()
    manifest |= {"size": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}
    change(manifest)
    del manifest["manifest_sha256"]
    path.write_text(json.dumps(manifest | {"manifest_sha256": content_digest(manifest)}))
