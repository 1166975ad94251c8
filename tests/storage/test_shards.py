"""Checkpoints in shards: they are read as one, in any division, and never without a shard."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from trustax.storage import pytree
from trustax.storage.arrays import Rows
from trustax.storage.history import checkpoint_path, newest_sound_or_raise, newest_valid
from trustax.storage.manifest import MANIFEST, CheckpointError, content_digest, read_manifest, shard_name

NUM_ROWS = 5
DIVISIONS = [[5], [3, 2], [2, 2, 1], [1, 1, 1, 1, 1]]


def tree(rows: range = range(NUM_ROWS)) -> dict[str, Any]:
    weights = np.arange(2.0 * NUM_ROWS, dtype=np.float32).reshape(NUM_ROWS, 2)
    keys = jax.random.split(jax.random.key(0), NUM_ROWS)
    return {"weights": weights[rows.start : rows.stop], "keys": keys[rows.start : rows.stop], "step": np.array(7)}


def blocks(sizes: list[int]) -> list[range]:
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def saved(folder: Path, sizes: list[int]) -> Path:
    temporary = folder.with_name(".tmp-shards")
    shards = [pytree.write_shard(temporary, tree(rows), number, rows) for number, rows in enumerate(blocks(sizes))]
    pytree.finish_shards(temporary, folder, tree(blocks(sizes)[0]), {"seeds": NUM_ROWS}, shards, NUM_ROWS)
    assert not temporary.exists()
    return folder


def assert_same(found: dict[str, Any], rows: range = range(NUM_ROWS)) -> None:
    expected = tree(rows)
    np.testing.assert_array_equal(found["weights"], expected["weights"])
    np.testing.assert_array_equal(jax.random.key_data(found["keys"]), jax.random.key_data(expected["keys"]))
    assert found["step"] == 7


def test_any_division_is_read_in_any_other(tmp_path: Path) -> None:
    folders = [saved(tmp_path / f"saved{number}", sizes) for number, sizes in enumerate(DIVISIONS)]
    pytree.save(tmp_path / "whole", tree(), {"seeds": NUM_ROWS})
    for folder in [*folders, tmp_path / "whole"]:
        assert_same(pytree.load(folder, tree()))
        assert pytree.read_header(folder) == {"seeds": NUM_ROWS}
        for rows in (rows for sizes in DIVISIONS for rows in blocks(sizes)):
            assert_same(pytree.load(folder, tree(rows), rows=Rows(rows, NUM_ROWS)), rows)
    part = pytree.load(folders[1], {"weights": tree()["weights"]}, part=True)
    np.testing.assert_array_equal(part["weights"], tree()["weights"])
    pytree.copy_rows(folders[2], tmp_path / "copied", [0, 3], {})
    np.testing.assert_array_equal(
        pytree.load(tmp_path / "copied", tree(range(2)))["weights"], tree()["weights"][np.array([0, 3])]
    )


def test_a_checkpoint_without_one_of_its_shards_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = saved(checkpoint_path(tmp_path, 8), [3, 2])
    newer = saved(checkpoint_path(tmp_path, 16), [3, 2])
    assert newest_valid(tmp_path) == newer
    (newer / shard_name(1)).write_bytes(b"\0" * (newer / shard_name(1)).stat().st_size)
    assert newest_sound_or_raise(tmp_path) == older
    assert f"{shard_name(1)}: damaged" in capsys.readouterr().err
    (newer / shard_name(1)).unlink()
    assert newest_valid(tmp_path) == newest_sound_or_raise(tmp_path) == older
    pytree.save(newer, tree(), {})
    assert_same(pytree.load(newest_valid(tmp_path) or newer, tree()))


def test_a_checkpoint_is_not_finished_before_all_shards_are_there(tmp_path: Path) -> None:
    temporary, folder = tmp_path / ".tmp-shards", tmp_path / "saved"
    shards = [pytree.write_shard(temporary, tree(rows), number, rows) for number, rows in enumerate(blocks([3, 2]))]
    (temporary / shard_name(1)).unlink()
    with pytest.raises(CheckpointError, match="No such file"):
        pytree.finish_shards(temporary, folder, tree(range(3)), {}, shards, NUM_ROWS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda shards: shards[1].__setitem__(0, "../../outside.safetensors"),
        lambda shards: shards[1].__setitem__(1, 2),
        lambda shards: shards[1].__setitem__(2, True),
        lambda shards: shards.clear(),
        lambda shards: shards.append("more"),
    ],
)
def test_shards_that_are_not_consecutive_rows_are_refused(change: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "saved", [3, 2]) / MANIFEST
    manifest = {name: value for name, value in json.loads(path.read_text()).items() if name != "manifest_sha256"}
    change(manifest["shards"])
    path.write_text(json.dumps(manifest | {"manifest_sha256": content_digest(manifest)}))
    with pytest.raises(CheckpointError, match="its shards are not consecutive rows"):
        read_manifest(path.parent)


def test_shards_of_another_number_of_rows_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "saved", [3, 2])
    with pytest.raises(CheckpointError, match="expected"):
        pytree.load(folder, tree(range(2)), rows=Rows(range(2), 4))
