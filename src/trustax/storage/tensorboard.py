"""TensorBoard events, framed by hand: tensorboardX's own writer queues them for a thread, which dies on a full disk."""

import struct
import time
from pathlib import Path
from statistics import fmean

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from trustax.ops.metrics import STEP, Record, finite_values


def new_event_file(folder: Path) -> Path:
    """Named as TensorBoard expects; it reads the files of a folder by their names' order, hence the count."""
    count = len(list(folder.glob("events.out.tfevents.*")))
    return folder / f"events.out.tfevents.{int(time.time()):010d}.{count:04d}.trustax"


def opening_events(resume_at: int | None) -> list[Event]:
    """The mark of the format and, on resuming, the request to forget the steps that will come again."""
    opening = [Event(wall_time=time.time(), file_version="brain.Event:2")]
    if resume_at is not None:
        start = SessionLog(status=SessionLog.START)
        opening.append(Event(wall_time=time.time(), step=resume_at + 1, session_log=start))
    return opening


def summary_event(record: Record) -> Event:
    means = {name: fmean(values) for name, metric in record.items() if (values := finite_values(metric))}
    scalars = [Summary.Value(tag=name, simple_value=mean) for name, mean in means.items()]
    return Event(wall_time=time.time(), step=record[STEP], summary=Summary(value=scalars))


def framed(event: Event) -> bytes:
    """The event as a TFRecord: its length and itself, each followed by its checksum."""
    content = event.SerializeToString()
    length = struct.pack("<Q", len(content))
    return b"".join(part + struct.pack("<I", masked_crc32c(part)) for part in (length, content))
