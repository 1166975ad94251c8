"""TensorBoard: the mean of every metric, its spread over the seeds, the curve of each seed, and the hyperparameters.

Event files are written here and not by tensorboardX's writer, which queues events for a thread: on a full disk that
thread dies, and training hangs.
"""

import struct
import time
from pathlib import Path
from statistics import fmean, pstdev

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import hparams

from trustax.ops.metrics import RETURN, STEP, Record, finite_values
from trustax.run import Run, settings_of
from trustax.storage.atomic import AppendOnlyFile

FOLDER = "tensorboard"
MAX_SEEDS = 32
"""With more seeds than this, only the mean and the spread are written, since each seed needs its own file."""


class TensorBoardLogger:
    """Writes event files into `tensorboard/` of the run's folder; TensorBoard shows each seed as a separate run."""

    def __init__(self) -> None:
        self._mean: EventFile | None = None
        self._seeds: list[EventFile] = []

    def start(self, run: Run, run_dir: Path | None, resume_at: int | None) -> None:
        if run_dir is None:
            raise ValueError("TensorBoard needs run_dir, the folder to write to")
        self._mean, self._seeds = EventFile(run_dir / FOLDER, resume_at), []
        if resume_at is None:
            for summary in hparams(_hyperparameters(run), {RETURN: 0.0}):
                self._mean.append(Event(wall_time=time.time(), summary=summary))
        if 1 < run.num_seeds <= MAX_SEEDS:
            self._seeds = [EventFile(run_dir / FOLDER / f"seed_{name}", resume_at) for name in run.learner_names]

    def log(self, record: Record) -> None:
        assert self._mean is not None
        numbers = {name: values for name, metric in record.items() if (values := finite_values(metric))}
        means = {name: fmean(values) for name, values in numbers.items()}
        spreads = {f"{name}_std": pstdev(values) for name, values in numbers.items() if len(values) > 1}
        self._mean.append_scalars(record[STEP], means | spreads)
        for index, file in enumerate(self._seeds):
            of_seed = {name: metric[index] for name, metric in record.items() if isinstance(metric, list)}
            file.append_scalars(record[STEP], {name: value for name, value in of_seed.items() if value is not None})

    def close(self) -> None:
        for file in [self._mean, *self._seeds]:
            if file is not None:
                file.close()


class EventFile:
    """A new event file in a folder."""

    def __init__(self, folder: Path, resume_at: int | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names, so the name has a count.
        count = len(list(folder.glob("events.out.tfevents.*")))
        self._file = AppendOnlyFile(folder / f"events.out.tfevents.{int(time.time()):010d}.{count:04d}.trustax")
        self.append(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if resume_at is not None:  # TensorBoard then drops the steps that will be logged again
            start = SessionLog(status=SessionLog.START)
            self.append(Event(wall_time=time.time(), step=resume_at + 1, session_log=start))

    def append_scalars(self, step: int, scalars: dict[str, float]) -> None:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self.append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def append(self, event: Event) -> None:
        """Write the event as a TFRecord: its length and its content, each followed by a checksum."""
        content = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        self._file.append(b"".join(part + struct.pack("<I", masked_crc32c(part)) for part in (length, content)))

    def close(self) -> None:
        self._file.close()


def _hyperparameters(run: Run) -> dict[str, bool | float | str]:
    settings = settings_of(run, without=())
    return {name: value if isinstance(value, bool | int | float) else str(value) for name, value in settings.items()}
