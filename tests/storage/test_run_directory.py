"""A run is resumed from its newest sound checkpoint, and only as the run that wrote it."""

import json
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reliability.made import RUN, StillEnvironment, make_run, resumed, state_at
from reliability.mutations import Mutation, many_layers, many_seeds

import trustax as tx
from trustax.run import RUN_FILE, read_run
from trustax.storage.history import checkpoint_path, newest_sound_or_raise, prune
from trustax.storage.manifest import ARRAYS, MANIFEST, content_digest
from trustax.storage.run_directory import RunDirectory


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    make_run(folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "run")


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)


def rewrite_header(checkpoint: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    change(manifest["header"])
    del manifest["manifest_sha256"]
    (checkpoint / MANIFEST).write_text(json.dumps(manifest | {"manifest_sha256": content_digest(manifest)}))


def test_the_older_checkpoint_is_used_if_the_newest_has_a_flipped_bit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_bit(checkpoint_path(folder, 32) / ARRAYS)
    assert int(resumed(folder).iteration) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(checkpoint_path(folder, 32)) in line
    assert line.endswith("using step_000000000016 instead")
    assert tx.load(folder, learner=1).spec.observation_shape == (4,)
    assert "using step_000000000016 instead" in capsys.readouterr().err
    flip_bit(checkpoint_path(folder, 16) / ARRAYS)
    for use in (resumed, tx.load):
        with pytest.raises(tx.TrustaxError, match="all checkpoints of this run are damaged"):
            use(folder)


def test_a_checkpoint_that_a_live_run_deletes_is_chosen_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[Path] = []

    def choose(run_dir: Path) -> Path | None:
        saved = newest_sound_or_raise(run_dir)
        if saved is not None and not deleted:
            deleted.append(saved)
            shutil.rmtree(saved)
        return saved

    monkeypatch.setattr("trustax.storage.loading.newest_sound_or_raise", choose)
    assert tx.load(folder).spec.observation_shape == (4,)
    assert deleted == [checkpoint_path(folder, 32)]


def test_a_damaged_newer_checkpoint_does_not_replace_a_valid_one(folder: Path) -> None:
    flip_bit(checkpoint_path(folder, 32) / ARRAYS)
    shutil.copytree(checkpoint_path(folder, 16), checkpoint_path(folder, 24))
    prune(folder, up_to=24)
    assert {path.name[-2:] for path in (folder / "checkpoints").iterdir()} == {"16", "24", "32"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 7}, "seed = 0, but run.json says 7; set it to 0 again"),
        ({"algorithm": {"learning_rate": 0.5}}, "learning_rate = 0.0003, but run.json says 0.5"),
    ],
)
def test_a_run_file_edited_by_hand_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    values = json.loads((folder / RUN_FILE).read_text())
    algorithm = values["algorithm"] | change.pop("algorithm", {})
    text = json.dumps(values | change | {"algorithm": algorithm})
    (folder / RUN_FILE).write_text(text)
    with pytest.raises(tx.TrustaxError, match=message):
        resumed(folder, read_run(folder))
    assert (folder / RUN_FILE).read_text() == text


def test_only_the_length_of_a_run_may_change(folder: Path) -> None:
    assert int(resumed(folder, replace(RUN, total_timesteps=640)).iteration) == 4
    assert read_run(folder).total_timesteps == 640


def opened(folder: Path, env_id: str, engine: str, environment: Any = None) -> tx.Run:
    """Open the folder as a run that resumes on an engine; its definition afterwards."""
    run = replace(RUN, env_id=env_id)
    directory = RunDirectory(folder, run, environment or StillEnvironment(), checkpoint_seconds=0.0, engine=engine)
    directory.open(resume=True)
    directory.save(state_at(run, 6))
    return read_run(folder)


def test_a_run_is_resumed_on_its_engine_only(folder: Path) -> None:
    assert opened(folder, "CartPole-v1", "envpool").env_id == "CartPole-v1"  # a checkpoint without an engine
    before = (folder / RUN_FILE).read_bytes()
    for env_id in ("CartPole-v1", "gymnasium:CartPole-v1"):
        message = f"was trained with envpool, but {env_id} runs on gymnasium here; to resume, use the id envpool:Cart"
        with pytest.raises(tx.TrustaxError, match=message):
            opened(folder, env_id, "gymnasium")
    assert (folder / RUN_FILE).read_bytes() == before
    assert opened(folder, "envpool:CartPole-v1", "envpool").env_id == "envpool:CartPole-v1"
    assert opened(folder, "CartPole-v1", "envpool").env_id == "CartPole-v1"


def test_the_engine_to_install_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(folder, "CartPole-v1", "envpool")
    monkeypatch.setattr("trustax.envs.registry.envpool_ids", lambda: [])
    with pytest.raises(tx.TrustaxError, match="use the id envpool:CartPole-v1; envpool is not installed: pip install"):
        opened(folder, "CartPole-v1", "native")


def test_a_checkpoint_without_an_engine_is_resumed_with_the_same_id_only(folder: Path) -> None:
    with pytest.raises(tx.TrustaxError, match="holds a run with env_id = CartPole-v1, not native:CartPole-v1"):
        opened(folder, "native:CartPole-v1", "native")


def test_an_object_has_no_prefix(folder: Path) -> None:
    rewrite_header(checkpoint_path(folder, 32), lambda header: header.update(engine="native"))
    rewrite_header(checkpoint_path(folder, 32), lambda header: header["run"].update(env_id="Mine"))
    (folder / RUN_FILE).write_text((folder / RUN_FILE).read_text().replace("CartPole-v1", "Mine"))
    with pytest.raises(tx.TrustaxError, match="Mine runs on gymnasium here; to resume, pass the same environment"):
        opened(folder, "Mine", "gymnasium")


def test_an_environment_that_has_changed_is_refused(folder: Path) -> None:
    class Images(StillEnvironment):
        spec = tx.EnvSpec((4,), tx.DiscreteActions(3))

    with pytest.raises(tx.TrustaxError, match=r"trained with actions = .*2.*, but the environment now has .*3"):
        opened(folder, "CartPole-v1", "native", Images())
    rewrite_header(checkpoint_path(folder, 32), lambda header: header.update(spec={"actions": 1}))
    with pytest.raises(tx.TrustaxError, match="step_000000000032: holds no run"):
        resumed(folder)
    rewrite_header(checkpoint_path(folder, 32), lambda header: header.pop("spec"))
    assert int(resumed(folder).iteration) == 4


def test_what_killed_saves_of_agents_left_is_removed_when_the_run_is_resumed(folder: Path) -> None:
    left = [folder / place / f".tmp-{uuid.uuid4().hex}" for place in ("", "agents", "agents/step_000000000016")]
    own = folder / ".tmp-notes"
    for path in (*left, own):
        path.mkdir(parents=True)
        (path / ARRAYS).touch()
    with pytest.raises(tx.TrustaxError, match="already holds a run"):
        RunDirectory(folder, RUN, StillEnvironment(), checkpoint_seconds=0.0).open(resume=False)
    assert all(path.exists() for path in left)
    resumed(folder)
    assert [path for path in (*left, own) if path.exists()] == [own]


def test_a_checkpoint_of_an_earlier_version_without_a_run_is_read(folder: Path) -> None:
    rewrite_header(checkpoint_path(folder, 32), lambda header: (header.pop("run"), header.pop("kind")))
    assert int(resumed(folder).iteration) == 4


def test_a_checkpoint_named_for_another_step_is_refused(folder: Path) -> None:
    checkpoint_path(folder, 32).rename(checkpoint_path(folder, 40))
    with pytest.raises(tx.TrustaxError, match="of step 32, but its folder is named for step 40; move"):
        resumed(folder)


def test_a_header_without_a_run_is_refused(folder: Path) -> None:
    rewrite_header(checkpoint_path(folder, 32), lambda header: header.update(run=[1]))
    with pytest.raises(tx.TrustaxError, match="step_000000000032: not a Trustax run"):
        resumed(folder)


@pytest.mark.parametrize("mutation", [many_layers, many_seeds])
@pytest.mark.parametrize("kind", ["run", "agent"])
def test_a_small_hostile_header_is_refused_quickly(folder: Path, mutation: Mutation, kind: str) -> None:
    if kind == "agent":
        tx.load(folder).save(folder / "agent")
    checkpoint = checkpoint_path(folder, 32) if kind == "run" else folder / "agent"
    mutation(Random(0), checkpoint)
    began = time.process_time()
    with pytest.raises(tx.TrustaxError, match=r"holds no (run|agent): |array .* is .*, expected"):
        tx.load(folder if kind == "run" else checkpoint)
    assert time.process_time() - began < 2


def test_nothing_is_saved_to_an_emptied_folder(folder: Path) -> None:
    directory = RunDirectory(folder, RUN, StillEnvironment(), checkpoint_seconds=0.0)
    directory.open(resume=True)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(tx.TrustaxError, match=r"has lost its run\.json during training"):
        directory.save(state_at(RUN, 5))
    assert not list(folder.iterdir())
