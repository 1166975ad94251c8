"""Loggers get every record; one that fails is left out, and the run goes on."""

import copy
import dataclasses
import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

import trustax as tx
from trustax.storage.atomic import AppendOnlyFile
from trustax.storage.loggers import Loggers, WandbLogger, scalars
from trustax.storage.tensorboard import TensorBoardLogger

RUN = tx.Run(
    algorithm=tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(4,)),
    env_id="CartPole-v1",
    total_timesteps=2 * 64,
    num_envs=2,
    horizon=32,
    num_seeds=2,
)
RECORDS = [
    {"time/total_timesteps": 64, "rollout/ep_rew_mean": [1.0, None], "time/fps": 10.0},
    {"time/total_timesteps": 128, "rollout/ep_rew_mean": [1.0, 3.0], "time/fps": 20.0},
]


def events(folder: Path) -> list[Event]:
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            body = content[12 : 12 + length]
            assert struct.unpack("<I", content[8:12])[0] == masked_crc32c(content[:8])
            assert struct.unpack("<I", content[12 + length : 16 + length])[0] == masked_crc32c(body)
            found.append(Event.FromString(body))
            content = content[16 + length :]
    return found


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [
        (event.step, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
        if value.tag == tag
    ]


def logged(loggers: Any, run_dir: Path | None, resume_at: int | None = None) -> Loggers:
    several = Loggers(loggers, run_dir)
    several.start(RUN, resume_at)
    for record in RECORDS:
        several.log(record)
    several.close()
    return several


def test_tensorboard_has_the_mean_the_spread_every_seed_and_the_settings(tmp_path: Path) -> None:
    logged(None, tmp_path)
    folder = tmp_path / "tensorboard"
    assert curve(folder, "rollout/ep_rew_mean") == [(64, 1.0), (128, 2.0)]
    assert curve(folder, "rollout/ep_rew_mean_std") == [(128, 1.0)]
    assert curve(folder / "seed_0", "rollout/ep_rew_mean") == [(64, 1.0), (128, 1.0)]
    assert curve(folder / "seed_1", "rollout/ep_rew_mean") == [(128, 3.0)]
    assert curve(folder / "seed_0", "time/fps") == []
    assert any("hparams" in value.tag for event in events(folder) for value in event.summary.value)


def test_a_resumed_run_purges_later_steps_from_tensorboard(tmp_path: Path) -> None:
    logged(None, tmp_path)
    logged(None, tmp_path, resume_at=64)
    assert len(list((tmp_path / "tensorboard").glob("events.*"))) == 2  # though both were made within one second
    (purge,) = [event for event in events(tmp_path / "tensorboard") if event.session_log.status]
    assert purge.step == 65
    assert purge.session_log.status == purge.session_log.START


class Broken:
    """Fails at its second record."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def start(self, run: tx.Run, run_dir: Path | None, resume_at: int | None) -> None: ...

    def log(self, record: Any) -> None:
        self.records.append(record)
        if len(self.records) == 2:
            raise OSError("the server is gone")

    def close(self) -> None:
        raise AssertionError("a logger that failed is not called again")


def test_a_logger_that_fails_never_ends_a_run() -> None:
    broken = Broken()
    with pytest.warns(UserWarning, match="Broken failed and is now disabled: the server is gone"):
        logged([broken], None)
    assert broken.records == RECORDS


def test_a_logger_for_tensorboard_serves_several_runs(tmp_path: Path) -> None:
    logger = TensorBoardLogger()
    logged([logger], tmp_path / "two seeds")
    several = Loggers([logger], tmp_path / "one seed")
    several.start(dataclasses.replace(RUN, num_seeds=1), None)
    several.log({"time/total_timesteps": 64, "rollout/ep_rew_mean": [1.0]})
    several.close()
    assert curve(tmp_path / "one seed" / "tensorboard", "rollout/ep_rew_mean") == [(64, 1.0)]


def test_a_full_disk_disables_tensorboard_and_does_not_end_a_run(tmp_path: Path) -> None:
    """Files report a full disk as an error of Trustax, which ends a run elsewhere."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no full device")

    class Full(TensorBoardLogger):
        def start(self, *arguments: Any) -> None:
            super().start(*arguments)
            assert self._mean is not None
            self._mean.close()
            self._mean._file = AppendOnlyFile(full)

    logger = Full()
    with pytest.warns(UserWarning, match="Full failed and is now disabled: could not write to /dev/full: No space"):
        result = tx.train(RUN, run_dir=tmp_path / "run", quiet=True, loggers=[logger])
    logger.close()
    assert len(result.records) == 2


@pytest.mark.parametrize("method", ["start", "close"])
def test_a_logger_that_fails_at_the_start_or_at_the_end_never_ends_a_run(method: str) -> None:
    class Failing(Broken):
        def log(self, record: Any) -> None:
            self.records.append(record)

        def close(self) -> None: ...

    def fail(*arguments: Any) -> None:
        raise tx.TrustaxError("the disk is full")

    failing = Failing()
    setattr(failing, method, fail)
    with pytest.warns(UserWarning, match="Failing failed and is now disabled: the disk is full"):
        logged([failing], None)
    assert failing.records == ([] if method == "start" else RECORDS)


def test_a_user_defined_logger_receives_every_record(tmp_path: Path) -> None:
    class Mine(Broken):
        def log(self, record: Any) -> None:
            self.records.append(record)

        def close(self) -> None:
            self.closed = True

    mine = Mine()
    result = tx.train(RUN, quiet=True, loggers=[mine])
    assert mine.records == result.records
    assert mine.closed


def test_loggers_and_readers_may_change_the_records_that_they_get(tmp_path: Path) -> None:
    class Changing(Broken):
        def log(self, record: Any) -> None:
            self.records.append(copy.deepcopy(record))
            record["rollout/ep_rew_mean"].clear()
            record.clear()

        def close(self) -> None: ...

    one, other = Changing(), Changing()
    result = tx.train(RUN, run_dir=tmp_path / "run", quiet=True, loggers=[one, other])
    assert one.records == other.records == tx.read_records(tmp_path / "run")
    result.records[-1].clear()
    assert result.records == one.records


def test_an_object_that_is_not_a_logger_is_refused() -> None:
    with pytest.raises(tx.TrustaxError, match="there is no logger 'tensorbord'; did you mean tensorboard"):
        Loggers(["tensorbord"], None)
    with pytest.raises(tx.TrustaxError, match="a logger must have the methods start, log and close; 3 has no start"):
        Loggers([3], None)
    for loggers in (WandbLogger, [WandbLogger]):
        with pytest.raises(tx.TrustaxError, match=r"a logger must be an object, not a class: WandbLogger\(...\)"):
            Loggers(loggers, None)


def test_mlflow_writes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "")  # so that it is restored after the test
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    logged(["mlflow"], tmp_path)
    (metric,) = tmp_path.glob("mlruns/*/*/metrics/rollout/ep_rew_mean")
    values = [line.split() for line in metric.read_text().splitlines()]
    assert [(float(value), int(step)) for _, value, step in values] == [(1.0, 64), (2.0, 128)]
    (learning_rate,) = tmp_path.glob("mlruns/*/*/params/learning_rate")
    assert learning_rate.read_text() == "0.0003"
    logged("mlflow", tmp_path, resume_at=128)  # continues the same run
    assert len(metric.read_text().splitlines()) == 4


def test_wandb_writes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged(["wandb"], tmp_path)
    (log,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    deadline = time.monotonic() + 600  # wandb writes from a process of its own
    while b"rollout/ep_rew_mean" not in log.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first = (tmp_path / "wandb.id").read_text()
    logged("wandb", tmp_path, resume_at=128)
    assert (tmp_path / "wandb.id").read_text() == first
    (tmp_path / "other" / tmp_path.name).mkdir(parents=True)
    logged("wandb", tmp_path / "other" / tmp_path.name)  # a folder with the same name
    assert (tmp_path / "other" / tmp_path.name / "wandb.id").read_text() != first


def test_a_logger_whose_package_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(tx.TrustaxError, match="wandb is not installed"):
        logged("wandb", None)


def test_scalars_are_plain_numbers() -> None:
    assert json.loads(json.dumps(scalars(RECORDS[1], ["0", "1"]))) == {
        "time/total_timesteps": 128.0,
        "rollout/ep_rew_mean": 2.0,
        "seed_0/rollout/ep_rew_mean": 1.0,
        "seed_1/rollout/ep_rew_mean": 3.0,
        "time/fps": 20.0,
    }
