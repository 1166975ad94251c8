"""A run that trains in a local folder and is copied to an object store after each checkpoint.

Training itself only uses the local folder. If the run continues on another machine, it starts from the files in the
store. Loading, saving and all checks of files are the same as without a store.
"""

import os
import sys
import time
from pathlib import Path
from types import TracebackType

from trustax.errors import TrustaxError
from trustax.run import RUN_FILE
from trustax.runtime.interrupt import Interrupted
from trustax.storage.journal import METRICS_FILE
from trustax.storage.lease import is_lease
from trustax.storage.manifest import MANIFEST
from trustax.storage.object_store import StoredRun, StoreError, StoreLease, is_url
from trustax.storage.scratch import ScratchFolder
from trustax.storage.tensorboard import FOLDER as TENSORBOARD

Files = dict[str, tuple[int, int]]


class Mirror:
    """The local folder of a run, and its copy in a store if `run_dir` is a URL; a context manager.

    Entering takes over the run and downloads it; without `resume`, the store must not hold a run yet. `checkpoint`
    copies what has changed, and leaving copies everything, also after an error. A store that fails in the meantime does
    not stop the training; if the last copy fails, the local folder stays on the disk.

    The folder is absolute, so that the program may change its working directory.

    >>> with Mirror("runs/a") as mirror:  # no store
    ...     mirror.checkpoint()
    >>> mirror.folder == Path.cwd() / "runs" / "a"
    True
    """

    def __init__(self, run_dir: str | Path | None, resume: bool = True) -> None:
        _require_path(run_dir)
        self.url = str(run_dir).rstrip("/") if is_url(run_dir) else None
        self.folder = None if run_dir is None else Path(run_dir).absolute()
        if self.url is not None:
            self._scratch = ScratchFolder(_name(self.url))
            self.folder = self._scratch.folder
        self._resume = resume
        self._run: StoredRun | None = None
        self._lease: StoreLease | None = None
        self._downloaded: Files = {}
        self._sent: Files = {}
        self._is_newest = False
        self._ended = 0.0
        self._seconds = 0.0

    def __enter__(self) -> "Mirror":
        if self.url is None or self.folder is None:
            return self
        self._run = StoredRun(self.url)
        if not self._resume and not self._run.is_empty():
            raise TrustaxError(
                f"{self.url} already holds a run; resume it with resume=True (--resume) or choose another folder"
            )
        lease = self._run.take_lease()
        try:
            self._scratch.create()  # the records of a result are read from it until the process ends
            self._run.download(self.folder)
        except BaseException:
            lease.release()
            raise
        self._lease = lease
        self._downloaded = _files(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return
        problem = self._copy_at_end()
        self._lease.release()
        if problem is not None and (error is None or isinstance(error, GeneratorExit)):  # no other error to report
            raise problem
        if isinstance(error, TrustaxError | Interrupted):
            kinds = Interrupted if isinstance(error, Interrupted) else TrustaxError
            if isinstance(problem, StoreError):
                raise kinds(f"{error}; {problem}") from error
            if str(self.folder) in str(error):
                raise kinds(str(error).replace(str(self.folder), str(self.url))) from error
        elif isinstance(problem, StoreError):
            print(problem, file=sys.stderr)

    def _copy_at_end(self) -> TrustaxError | None:
        """Copy everything, or return the error. If not all was copied, the files stay on the disk."""
        where = f"the run is in {self.folder}: resume it there, or resume {self.url} from its last copy"
        try:
            self._copy(everything=True)
        except StoreError as problem:
            self._scratch.keep()
            return StoreError(f"{problem}; {where}")
        except TrustaxError as problem:  # a later attempt has taken over the run
            return problem
        except BaseException:  # a second Ctrl-C
            self._scratch.keep()
            print(f"the last copy to the store did not end; {where}", file=sys.stderr)
            raise
        return None

    def checkpoint(self) -> None:
        """Copy what has changed, in at most a twentieth of the time. TensorBoard's files are copied at the end."""
        if self._lease is None or time.monotonic() - self._ended < 19 * self._seconds:
            return
        began = time.monotonic()
        try:
            self._copy(everything=False)
        except StoreError as error:
            print(f"{error}; training continues, and the run is copied later", file=sys.stderr)
        self._ended = time.monotonic()
        self._seconds = self._ended - began

    def _copy(self, everything: bool) -> None:
        """Copy the files that have changed, manifests last, and delete those that are gone, manifests first."""
        assert self._run is not None
        assert self._lease is not None
        assert self.folder is not None
        found = _files(self.folder)
        if found == self._downloaded:
            return
        self._lease.check()
        files = {name: one for name, one in found.items() if everything or not name.startswith(f"{TENSORBOARD}/")}
        for name in sorted(files, key=_order):
            if self._sent.get(name) != files[name]:
                self._run.upload(self.folder / name, f"attempt.{self._lease.number}/{name}")
                self._sent[name] = files[name]
        gone = [name for name in self._sent if name not in files and not name.startswith(f"{TENSORBOARD}/")]
        self._run.delete(f"attempt.{self._lease.number}/{name}" for name in gone)
        for name in gone:
            del self._sent[name]
        if not self._is_newest and any(name.endswith(f"/{MANIFEST}") for name in files):
            self._is_newest = True
            self._lease.supersede()


def local_copy(path: str | Path) -> Path:
    """The folder of a run; a run in an object store is copied to a folder that is removed when the process ends."""
    if not is_url(path):
        return Path(path)
    url = str(path).rstrip("/")
    scratch = ScratchFolder(_name(url))
    scratch.create()
    if StoredRun(url).download(scratch.folder) is None:
        raise TrustaxError(f"there is no run with a checkpoint at {url}")
    return scratch.folder


def _require_path(run_dir: object) -> None:
    if not isinstance(run_dir, str | os.PathLike | None) or "\0" in str(run_dir):
        raise TrustaxError(f"run_dir must be the path of a folder or a URL, not {run_dir!r}")


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _files(folder: Path) -> Files:
    """The files of a run without leases and temporary files: name → time of the last change, size."""
    found = {path.relative_to(folder): path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        name.as_posix(): (status.st_mtime_ns, status.st_size)
        for name, status in found.items()
        if not any(part.startswith(".") for part in name.parts) and not is_lease(name.name)
    }


def _order(name: str) -> tuple[int, str]:
    """Arrays and other files come first, then the metrics and the definition of the run, and manifests last.

    >>> sorted(["run.json", "best/manifest.json", "best/arrays.safetensors"], key=_order)
    ['best/arrays.safetensors', 'run.json', 'best/manifest.json']
    """
    last = name.rpartition("/")[2]
    return (2 if last == MANIFEST else 1 if name in (METRICS_FILE, RUN_FILE) else 0, name)
