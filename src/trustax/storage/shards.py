"""Checkpoints of a distributed run: each process writes the rows of its learners, and process 0 the manifest.

All write to one temporary folder, which becomes the checkpoint by a rename when every shard is there. So a checkpoint
is never seen without one of its shards.
"""

import time
import uuid
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError
from trustax.runtime.distributed import Group
from trustax.storage import pytree
from trustax.storage.arrays import Rows
from trustax.storage.manifest import Shard

PATIENCE = 30.0
"""Seconds until a file that another machine has written must be seen on a shared file system."""


def save_together(folder: Path, tree: Any, header: dict[str, Any], rows: Rows | None, group: Group) -> None:
    """Save the arrays of all processes as one checkpoint; `tree` has the rows of this process, None for all rows."""
    if rows is None:
        if group.is_first:
            pytree.save(folder, tree, header)
        group.gather(None)  # the checkpoint is complete
        return
    name = group.gather(uuid.uuid4().hex)[0]
    temporary = folder.with_name(pytree.TEMPORARY_PREFIX + name)
    shard = pytree.write_shard(temporary, tree, group.process_id, rows.own)
    shards = [Shard(*entry) for entry in group.gather(list(shard))]
    if group.is_first:
        for other in shards:
            wait_for_file(temporary / other.file, other.size)
        pytree.finish_shards(temporary, folder, tree, header, shards, rows.total)
    group.gather(None)  # the checkpoint is complete


def wait_for_file(path: Path, size: int | None = None, patience: float = PATIENCE) -> None:
    """Wait until a file of another process, of this size if given, can be seen; a network drive may take a moment."""
    deadline = time.monotonic() + patience
    while not path.exists() or (size is not None and path.stat().st_size != size):
        if time.monotonic() > deadline:
            raise TrustaxError(
                f"{path} of another process cannot be seen here; all processes need the same run_dir on a file system "
                "that they share"
            )
        time.sleep(0.05)
