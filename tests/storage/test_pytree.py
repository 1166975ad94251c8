"""Checkpoints come back bit for bit, survive a crash at any step of a save and harm no one who opens them."""

import hashlib
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reliability.rows import Row
from reliability.saves import WAYS, crash_everywhere, flip_every_page

from trustax.errors import TrustaxError
from trustax.storage import manifest as manifests
from trustax.storage.history import checkpoint_path, newest_valid, prune
from trustax.storage.manifest import CheckpointError
from trustax.storage.pytree import load, read_header, save

HEADER = {"algorithm": "mcpo", "learning_rate": 3e-4, "layers": [64, 64], "note": "é\ud800"}


def example_tree(fill: int = 1) -> dict[str, Any]:
    return {
        "flag": jnp.array([True, False, True]),
        "pixels": jnp.arange(12, dtype=jnp.uint8).reshape(3, 4) + jnp.uint8(fill),
        "count": jnp.int32(fill),
        "weights": (jnp.full((2, 3), fill, jnp.float32), [jnp.array([jnp.nan, -0.0, jnp.inf])]),
        "half": jnp.arange(5, dtype=jnp.bfloat16) / 3,
        "empty": jnp.zeros((0, 4)),
        "key": jax.random.key(fill),
        "keys": jax.random.split(jax.random.key(fill, impl="rbg"), 3),
        "host": np.arange(3, dtype=np.float64),
    }


def raw(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    data = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return str(leaf.dtype), leaf.shape, np.asarray(data).tobytes()


def same(first: Any, second: Any) -> bool:
    return jax.tree.structure(first) == jax.tree.structure(second) and all(
        raw(a) == raw(b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )


def rewrite_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest as someone would who also corrects its digests."""
    path = folder / manifests.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["size"] = (folder / manifests.ARRAYS).stat().st_size
    manifest["sha256"] = hashlib.sha256((folder / manifests.ARRAYS).read_bytes()).hexdigest()
    change(manifest)
    manifest.pop("manifest_sha256", None)
    path.write_text(json.dumps(manifest | {"manifest_sha256": manifests.content_digest(manifest)}))


def test_round_trip_is_bitwise(tmp_path: Path) -> None:
    tree = example_tree()
    save(tmp_path / "saved", tree, HEADER)
    assert same(load(tmp_path / "saved", tree), tree)
    assert read_header(tmp_path / "saved") == HEADER
    assert isinstance(load(tmp_path / "saved", tree)["host"], np.ndarray)
    assert jnp.array_equal(
        jax.random.normal(load(tmp_path / "saved", tree)["key"], 3), jax.random.normal(tree["key"], 3)
    )


def test_the_template_may_be_abstract(tmp_path: Path) -> None:
    tree = {name: leaf for name, leaf in example_tree().items() if name != "host"}
    save(tmp_path / "saved", tree, {})
    assert same(load(tmp_path / "saved", jax.eval_shape(lambda: tree)), tree)


def test_a_part_of_a_checkpoint_can_be_loaded(tmp_path: Path) -> None:
    tree = example_tree()
    save(tmp_path / "saved", tree, {})
    part = {name: tree[name] for name in ("weights", "keys")}
    assert same(load(tmp_path / "saved", part, part=True), part)
    for other in (part | {"more": tree["flag"]}, part | {"keys": tree["key"]}):
        with pytest.raises(CheckpointError, match="expected"):
            load(tmp_path / "saved", other, part=True)


def test_a_single_array_and_an_empty_tree_can_be_saved(tmp_path: Path) -> None:
    for index, tree in enumerate((jnp.arange(3), {}, None)):
        save(tmp_path / str(index), tree, {})
        assert same(load(tmp_path / str(index), tree), tree)


def test_both_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    save(tmp_path / "saved", example_tree(), {})
    modes = {file.stat().st_mode for file in (tmp_path / "saved").iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree | {"count": jnp.zeros(1, jnp.int32)},
        lambda tree: tree | {"count": jnp.float32(1)},
        lambda tree: tree | {"more": jnp.zeros(3)},
        lambda tree: {name: leaf for name, leaf in tree.items() if name != "half"},
        lambda tree: tree | {"key": jax.random.key(0, impl="unsafe_rbg")},
        lambda tree: tree | {"key": jax.random.key_data(tree["key"])},
        lambda tree: tree | {"count": 3},
    ],
)
def test_another_template_is_refused_before_the_arrays_are_opened(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    save(tmp_path / "saved", example_tree(), {})
    (tmp_path / "saved" / manifests.ARRAYS).unlink()
    with pytest.raises(CheckpointError, match=r"array|leaf") as caught:
        load(tmp_path / "saved", change(example_tree()))
    assert "No such file" not in str(caught.value)
    assert isinstance(caught.value, TrustaxError)


@pytest.mark.parametrize(
    ("tree", "header"),
    [
        ({"a": 1.5}, {}),
        ({"a": np.array(["text"])}, {}),
        ({"a": jnp.zeros(1)}, {"a": float("nan")}),
        ({"a": jnp.zeros(1)}, {"a": object()}),
        ({"a": jnp.zeros(1)}, {"a": "x" * (manifests.MANIFEST_SIZE_LIMIT + 1)}),
        ({"a": jnp.zeros(1)}, {"a": json.loads("[" * 500 + "]" * 500), "b": {1: 2, "1": 3}}),
    ],
)
def test_values_that_cannot_be_loaded_are_not_saved(tmp_path: Path, tree: Any, header: dict[str, Any]) -> None:
    save(tmp_path / "saved", example_tree(), HEADER)
    with pytest.raises(CheckpointError):
        save(tmp_path / "saved", tree, header)
    assert read_header(tmp_path / "saved") == HEADER
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


def test_a_folder_that_is_not_a_checkpoint_is_not_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    for target in (home, home / "thesis.tex"):
        with pytest.raises(CheckpointError, match="not saved"):
            save(target, example_tree(), {})
    assert (home / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("how", WAYS)
def test_a_crash_at_any_step_leaves_a_readable_checkpoint(tmp_path: Path, how: str) -> None:
    row = Row("R4", "")
    crash_everywhere(row, tmp_path, how)
    assert row.failures == []
    assert row.passed == row.tried >= 12


def test_an_error_reports_a_full_disk_and_the_previous_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "saved", example_tree(1), {})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device") as caught:
        save(tmp_path / "saved", example_tree(2), {})
    assert "\n" not in str(caught.value)
    assert same(load(tmp_path / "saved", example_tree()), example_tree(1))
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved"]


def test_newest_valid_skips_damaged_checkpoints_and_prune_keeps_them(tmp_path: Path) -> None:
    assert newest_valid(tmp_path) is None
    prune(tmp_path)
    for step in (100, 200, 1000, 3000, 20_000):
        save(checkpoint_path(tmp_path, step), example_tree(step % 100), {"step": step})
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 20_000)
    (checkpoint_path(tmp_path, 20_000) / manifests.MANIFEST).unlink()
    os.truncate(checkpoint_path(tmp_path, 3000) / manifests.ARRAYS, 100)
    (tmp_path / "checkpoints" / ".tmp-half").mkdir()
    (tmp_path / "checkpoints" / "step_other").mkdir()
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 1000)
    prune(tmp_path, keep=2)
    left = {entry.name for entry in (tmp_path / "checkpoints").iterdir()}
    assert left == {"step_other"} | {checkpoint_path(tmp_path, s).name for s in (200, 1000, 3000, 20_000)}


def test_a_flipped_bit_in_any_page_is_detected(tmp_path: Path) -> None:
    row = Row("R6", "")
    flip_every_page(row, tmp_path / "saved", 2**16)
    assert row.failures == []
    assert row.passed == row.tried >= 2**16 * 4 // 4096


class Malicious:
    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def file_mutations(generator: random.Random, folder: Path) -> None:
    """Damage one file as a disk, a network or a careless hand does."""
    path = folder / generator.choice([manifests.ARRAYS, manifests.MANIFEST])
    content = bytearray(path.read_bytes())
    kind = generator.choice(["truncate", "flip", "swap", "grow", "insert", "delete", "empty", "noise"])
    first, second = (generator.randrange(len(content)) for _ in range(2))
    if kind == "truncate":
        content = content[:first]
    elif kind == "flip":
        content[first] ^= 1 << generator.randrange(8)
    elif kind == "swap":
        content[first], content[second] = content[second], content[first]
    elif kind == "grow":
        content += generator.randbytes(generator.randrange(1, 999))
    elif kind == "insert":
        content[first:first] = generator.choice([b"NaN", b"{", b'"', b"\x00", b"1e999", b"[[[["])
    elif kind == "noise":
        content = bytearray(generator.randbytes(len(content)))
    path.unlink()
    if kind != "delete":
        path.write_bytes(b"" if kind == "empty" else content)


def rehashed_mutations(generator: random.Random, folder: Path) -> None:
    """Damage that comes with correct digests: only the checks of content are left to find it."""
    path = folder / manifests.ARRAYS
    content = bytearray(path.read_bytes())
    header_size = int.from_bytes(content[:8], "little")
    kind = generator.choice(["header", "length", "manifest", "value"])
    if kind == "header":
        position = generator.randrange(8, 8 + header_size)
        content[position] = generator.choice(b'0123456789",:{}[]FIUB\x00\xff')
    elif kind == "length":
        length = generator.choice([0, 1, header_size - 1, header_size + 1, 2**31, 2**63, 2**64 - 1])
        content[:8] = length.to_bytes(8, "little")
    path.write_bytes(content)

    def change(manifest: dict[str, Any]) -> None:
        if kind == "manifest":
            manifest.pop(generator.choice(list(manifest)))
        if kind == "value":
            junk: list[Any] = [
                None,
                -1,
                10**400,
                "..",
                [],
                {},
                True,
                1.5,
                {"__reduce__": ["os.system", "id"]},
            ]
            place = generator.choice([manifest, manifest["arrays"], manifest["arrays"]["['half']"]])
            place[generator.choice(list(place))] = generator.choice(junk)

    rewrite_manifest(folder, change)


@pytest.mark.parametrize("mutate", [file_mutations, rehashed_mutations])
def test_a_mutated_checkpoint_is_refused_or_equal(
    tmp_path: Path, mutate: Callable[[random.Random, Path], None]
) -> None:
    tree = example_tree()
    save(tmp_path / "good", tree, HEADER)
    reasons = []
    for seed in range(300):
        folder = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", folder)
        mutate(random.Random(seed), folder)
        try:
            read_header(folder)
            assert same(load(folder, tree), tree)
            assert same(load(folder, {"half": tree["half"]}, part=True), {"half": tree["half"]})
        except CheckpointError as error:
            reasons.append(str(error))
        shutil.rmtree(folder)
    assert len(reasons) > 200
    assert all(str(tmp_path / "bad") in reason and "\n" not in reason for reason in reasons)


def hostile_checkpoints(folder: Path, canary: Path) -> dict[str, Callable[[], object]]:
    arrays, manifest = folder / manifests.ARRAYS, folder / manifests.MANIFEST
    payload = pickle.dumps(Malicious(canary))
    good = json.loads(manifest.read_text())
    tail = (10**8).to_bytes(8, "little") + b" " * (9 * 2**20)

    def replace_arrays(content: bytes) -> None:
        arrays.write_bytes(content)
        rewrite_manifest(folder, lambda _: None)

    def outside_link(path: Path) -> None:
        shutil.move(path, folder.parent / "outside")
        path.symlink_to(folder.parent / "outside")

    def pipe(path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    def many_arrays() -> None:
        tensors = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}
        text = json.dumps(tensors).encode()
        replace_arrays(len(text).to_bytes(8, "little") + text)

    return {
        "deep nesting": lambda: manifest.write_text("[" * 100_000 + "]" * 100_000),
        "deep objects": lambda: manifest.write_text('{"a":' * 900 + "1" + "}" * 900),
        "huge integer": lambda: manifest.write_text('{"version": ' + "9" * 100_000 + "}"),
        "NaN": lambda: manifest.write_text(json.dumps(good | {"header": {"rate": float("nan")}})),
        "infinite": lambda: manifest.write_text(json.dumps(good).replace("0.0003", "1e999")),
        "duplicate keys": lambda: manifest.write_text('{"version": 2, ' + json.dumps(good)[1:]),
        "huge manifest": lambda: manifest.write_bytes(b" " * (manifests.MANIFEST_SIZE_LIMIT + 1)),
        "manifest is pickle": lambda: manifest.write_bytes(payload),
        "manifest is a list": lambda: manifest.write_text("[]"),
        "newer format": lambda: rewrite_manifest(folder, lambda m: m.update(version=2)),
        "traversal": lambda: rewrite_manifest(folder, lambda m: m["arrays"].update({"../../etc/passwd": {}})),
        "arrays are pickle": lambda: replace_arrays(payload),
        "huge header": lambda: replace_arrays(tail),
        "many arrays": many_arrays,
        "linked arrays": lambda: outside_link(arrays),
        "linked manifest": lambda: outside_link(manifest),
        "piped arrays": lambda: pipe(arrays),
        "piped manifest": lambda: pipe(manifest),
        "no folder": lambda: shutil.rmtree(folder),
        "folder is a file": lambda: (shutil.rmtree(folder), folder.write_text("")),
    }


def test_a_hostile_checkpoint_is_refused(tmp_path: Path) -> None:
    tree = example_tree()
    save(tmp_path / "good", tree, {"rate": 3e-4})
    names = list(hostile_checkpoints(tmp_path / "good", tmp_path / "canary"))
    for number, name in enumerate(names):
        folder = tmp_path / f"{number}" / "bad"
        shutil.copytree(tmp_path / "good", folder)
        hostile_checkpoints(folder, tmp_path / "canary")[name]()
        with pytest.raises(CheckpointError) as caught:
            load(folder, tree)
        assert str(folder) in str(caught.value), name
        assert len(str(caught.value).splitlines()) == 1, name
    assert not (tmp_path / "canary").exists()
