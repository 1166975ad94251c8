"""Runs in object stores: what counts is complete, a later attempt takes over, and nothing of an earlier one gets in."""

import uuid
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

import fsspec
import pytest

import trustax as tx
from trustax.errors import TrustaxError
from trustax.runtime.interrupt import Interrupted
from trustax.storage.manifest import ARRAYS, MANIFEST
from trustax.storage.mirror import Mirror, _require_path, local_copy
from trustax.storage.object_store import Saved, StoredRun, StoreError, is_url
from trustax.storage.scratch import KEPT
from trustax.sweeps.sweep import local_folder
from trustax.sweeps.tuning import folder_of_study


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4().hex}/run" if request.param == "memory" else f"file://{tmp_path}/store/run"


def names(url: str) -> list[str]:
    """The objects of a run in a store."""
    files, root = fsspec.core.url_to_fs(url)
    return sorted(path.removeprefix(root).lstrip("/") for path in files.find(root))


def write_checkpoint(folder: Path, step: int, content: str = "arrays") -> None:
    """Files as a run would write them."""
    saved = folder / "checkpoints" / f"step_{step:012d}"
    saved.mkdir(parents=True, exist_ok=True)
    (saved / ARRAYS).write_text(content)
    (saved / MANIFEST).write_text("{}")
    (folder / "run.json").write_text("{}")
    with open(folder / "metrics.jsonl", "a") as metrics:
        metrics.write(f'{{"time/total_timesteps": {step}}}\n')


def copy(mirror: Mirror) -> None:
    mirror._seconds = 0.0  # so that no copy is left out for taking too much of the time
    mirror.checkpoint()


def failing_at(part: str, upload: Callable[..., None]) -> Callable[..., None]:
    """A copy of a file that fails if its name has this part."""

    def fails(self: StoredRun, source: Path, name: str) -> None:
        if part in name:
            raise StoreError("the network is down")
        upload(self, source, name)

    return fails


def test_a_run_goes_on_elsewhere_and_its_earlier_process_is_refused(url: str) -> None:
    with Mirror(url) as first:
        assert first.folder is not None
        write_checkpoint(first.folder, 8)
        copy(first)
        with Mirror(url) as second:
            assert second.folder is not None
            assert (second.folder / "metrics.jsonl").read_text() == '{"time/total_timesteps": 8}\n'
            write_checkpoint(first.folder, 16, "of the first")
            with pytest.raises(TrustaxError, match=r"taken over by a later attempt \(PID"):
                copy(first)
            write_checkpoint(second.folder, 16, "of the second")
            copy(second)
            assert {name.split("/")[0] for name in names(url)} == {"lease.1", "lease.2", "attempt.2"}
        assert {name.split("/")[0] for name in names(url)} == {"lease.2", "attempt.2"}
        before = names(url)
        with pytest.raises(TrustaxError, match="taken over by a later attempt; this one stops"):
            copy(first)
        assert StoredRun(url).progress() == (b'{"time/total_timesteps": 8}\n{"time/total_timesteps": 16}\n', None)
        first._lease = None  # its last copy would be refused as well
    assert names(url) == before
    assert (local_copy(url) / "checkpoints" / "step_000000000016" / ARRAYS).read_text() == "of the second"
    assert StoredRun(url).take_lease().number == 3


def test_a_checkpoint_counts_when_its_manifest_is_there(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    upload = StoredRun.upload
    with Mirror(url) as mirror:
        assert mirror.folder is not None
        with monkeypatch.context() as patch:
            patch.setattr(StoredRun, "upload", lambda *given: (sent.append(given[2]), upload(*given)))
            write_checkpoint(mirror.folder, 8)
            copy(mirror)
        assert [name.rpartition("/")[2] for name in sent] == [ARRAYS, "metrics.jsonl", "run.json", MANIFEST]
        with monkeypatch.context() as patch:
            patch.setattr(StoredRun, "upload", failing_at(MANIFEST, upload))
            write_checkpoint(mirror.folder, 16)
            copy(mirror)
        assert "the network is down; training continues" in capsys.readouterr().err
        assert StoredRun(url).download(tmp_path / "copy") == Saved(attempt=1, step=8)
        assert sorted(path.name for path in (tmp_path / "copy" / "checkpoints").iterdir()) == ["step_000000000008"]
        copy(mirror)
        assert StoredRun(url).download(tmp_path / "copy", with_arrays=False) == Saved(attempt=1, step=16)


def test_a_run_whose_last_copy_fails_stays_on_the_disk(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredRun, "upload", failing_at("", StoredRun.upload))
    mirror = Mirror(url).__enter__()
    assert mirror.folder is not None
    write_checkpoint(mirror.folder, 8)
    with pytest.raises(StoreError, match=f"the network is down; the run is in {mirror.folder}: resume it there"):
        mirror.__exit__(None, None, None)
    assert_kept(mirror)


def train_until(error: BaseException, mirror: Mirror) -> None:
    with mirror:
        assert mirror.folder is not None
        write_checkpoint(mirror.folder, 8)
        raise error


def assert_kept(mirror: Mirror) -> None:
    """The folder has the checkpoint and outlives the process; the test removes it."""
    assert mirror.folder is not None
    assert (mirror.folder / "checkpoints" / "step_000000000008" / ARRAYS).exists()
    assert (mirror.folder.parent / KEPT).exists()
    mirror._scratch.remove()


@pytest.mark.parametrize("kind", [Interrupted, TrustaxError, ValueError, GeneratorExit, KeyboardInterrupt])
def test_a_run_that_ends_early_also_stays_on_the_disk(
    kind: type[BaseException], url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(StoredRun, "upload", failing_at("", StoredRun.upload))
    mirror = Mirror(url)
    error = kind(f"resume with: trustax resume {mirror.folder}")
    with pytest.raises(StoreError if kind is GeneratorExit else kind) as caught:
        train_until(error, mirror)
    where = f"the network is down; the run is in {mirror.folder}: resume it there, or resume {url} from its last copy"
    message = str(caught.value)
    if kind in (Interrupted, TrustaxError):
        message = message.removeprefix(f"resume with: trustax resume {mirror.folder}; ")
    elif kind is not GeneratorExit:
        assert message == f"resume with: trustax resume {mirror.folder}"
        message = capsys.readouterr().err.strip()
    assert message == where
    assert_kept(mirror)


def test_ctrl_c_during_the_last_copy_keeps_the_files(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(self: StoredRun, source: Path, name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StoredRun, "upload", stopped)
    mirror = Mirror(url).__enter__()
    assert mirror.folder is not None
    write_checkpoint(mirror.folder, 8)
    with pytest.raises(KeyboardInterrupt):
        mirror.__exit__(None, None, None)
    assert f"the last copy to the store did not end; the run is in {mirror.folder}" in capsys.readouterr().err
    assert_kept(mirror)


@pytest.mark.parametrize("path", [Path("s3://bucket/runs/x"), "s3:/bucket/runs/x"])
def test_a_url_that_has_lost_a_slash_is_refused(path: Path | str) -> None:
    train: Any = lambda path: tx.train(tx.PPO(), "CartPole-v1", run_dir=path)  # noqa: E731
    for use in (train, tx.load, local_copy, local_folder, folder_of_study):
        with pytest.raises(TrustaxError, match=r"a URL without its second slash.*: 's3://bucket/runs/x'$"):
            use(path)
    assert not is_url(PureWindowsPath("C:/runs/x"))
    assert not is_url("C:/runs/x")


@pytest.mark.parametrize("run_dir", [b"x", 5, "a\0b"])
def test_what_is_no_path_is_refused(run_dir: object) -> None:
    with pytest.raises(TrustaxError, match="run_dir must be the path of a folder or a URL, not "):
        _require_path(run_dir)


def test_files_that_a_run_deletes_are_deleted_in_the_store_and_others_are_copied_at_the_end(url: str) -> None:
    with Mirror(url) as mirror:
        assert mirror.folder is not None
        write_checkpoint(mirror.folder, 8)
        copy(mirror)
        write_checkpoint(mirror.folder, 16)
        old = mirror.folder / "checkpoints" / "step_000000000008"
        for path in (old / ARRAYS, old / MANIFEST):
            path.unlink()
        for name in ("lease.1", ".run.json.12", "curve.png", "tensorboard/events"):
            (mirror.folder / name).parent.mkdir(exist_ok=True)
            (mirror.folder / name).touch()
        copy(mirror)
        kept = [
            "curve.png",
            "metrics.jsonl",
            "run.json",
            *(f"checkpoints/step_{16:012d}/{x}" for x in (ARRAYS, MANIFEST)),
        ]
        assert names(url) == sorted([*(f"attempt.1/{name}" for name in kept), "lease.1"])
    assert names(url) == sorted([*(f"attempt.1/{name}" for name in [*kept, "tensorboard/events"]), "lease.1"])


def test_a_run_that_is_not_resumed_needs_an_empty_place(url: str) -> None:
    with Mirror(url, resume=False) as mirror:
        assert mirror.folder is not None
        mirror.folder.mkdir(parents=True, exist_ok=True)
        with pytest.raises(TrustaxError, match="already holds a run"):
            Mirror(url, resume=False).__enter__()
    assert StoredRun(url).is_empty()
    assert StoredRun(url).take_lease().number == 2  # no attempt gets the number of another
    with pytest.raises(TrustaxError, match="there is no run with a checkpoint"):
        local_copy(url)
    with pytest.raises(TrustaxError, match="is not a folder in a store"):
        Mirror("s3://").__enter__()


def test_errors_name_the_url_and_not_the_temporary_folder(url: str) -> None:
    mirror = Mirror(url)
    with pytest.raises(TrustaxError) as caught, mirror:
        raise TrustaxError(f"{mirror.folder} holds another run")
    assert str(caught.value) == f"{url} holds another run"


def test_a_lease_is_created_by_one_process_only(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = StoredRun(url).take_lease()
    with monkeypatch.context() as patch:
        patch.setattr(StoredRun, "_sizes", lambda self: {})  # as listed before the first was there
        second = StoredRun(url).take_lease()
    assert (first.number, second.number) == (1, 2)


def test_a_store_that_replaces_objects_silently_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = StoredRun(url)
    plain = type(run._files).open

    def without_exclusive_creation(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        if "x" in mode:
            raise NotImplementedError("File mode not supported")
        return plain(self, path, mode, **options)

    monkeypatch.setattr(type(run._files), "open", without_exclusive_creation)
    assert (run.take_lease().number, run.take_lease().number) == (1, 2)
    assert f"{run.url} has no conditional writes" in capsys.readouterr().err


def test_names_of_objects_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    url = f"memory://{uuid.uuid4().hex}/run"
    with Mirror(url) as mirror:
        assert mirror.folder is not None
        write_checkpoint(mirror.folder, 8)
    files, root = fsspec.core.url_to_fs(url)
    files.store[f"{root}/attempt.1/../../evil"] = files.store[f"{root}/attempt.1/run.json"]
    StoredRun(url).download(tmp_path / "a" / "copy")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"copy"}
    assert not list(tmp_path.rglob("evil"))
