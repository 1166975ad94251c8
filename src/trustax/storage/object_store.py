"""The folder of a run in an object store: `s3://bucket/runs/x`, or a URL of any other file system of fsspec.

Attempt n to train a run first creates the object `lease.n`, which only one process can do, and then writes to its own
folder `attempt.n`. So a process that seemed dead can never overwrite the files of a later attempt. A checkpoint
counts once its manifest is there, which is written last, and the newest attempt with a checkpoint holds the run. When
an attempt ends, its lease becomes empty.
"""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

from trustax.errors import TrustaxError
from trustax.run import RUN_FILE
from trustax.storage.journal import METRICS_FILE
from trustax.storage.lease import describe, host_of, is_lease, new_content
from trustax.storage.manifest import ARRAYS, MANIFEST
from trustax.storage.reading import end_of_lines

TRIES = 3
"""A download starts again if a later attempt deletes the files in the meantime."""


class StoreError(TrustaxError):
    """The store did not do what it was asked to, for example because the network is down."""


class Saved(NamedTuple):
    """The newest checkpoint of an attempt."""

    attempt: int
    step: int


def is_url(path: object) -> bool:
    """Whether a path is a URL of fsspec; a URL that has lost a slash, as in a `Path`, is refused.

    >>> is_url("s3://bucket/run"), is_url("runs/a"), is_url(Path("runs/a"))
    (True, False, False)
    """
    text = path.as_posix() if isinstance(path, PurePath) else path
    if not isinstance(text, str):
        return False
    if found := re.match(r"([A-Za-z][\w+.-]+):/(?!/)", text):  # a drive of Windows has one letter
        url = f"{found[1]}://{text[found.end() :]}"
        raise TrustaxError(f"{text} is a URL without its second slash, as a Path writes it; pass a string: {url!r}")
    return "://" in text


class StoredRun:
    """A run in an object store."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._files, self._root = _connect(self.url)

    def is_empty(self) -> bool:
        """Whether the store has no files of the run, and no process trains it."""
        sizes = self._sizes()
        return not _attempts(sizes) and not any(sizes[f"lease.{number}"] for number in _leases(sizes))

    def download(self, folder: Path, with_arrays: bool = True) -> Saved | None:
        """Copy the files of the newest attempt to a local folder; without arrays, only its definition and metrics."""
        for _ in range(TRIES):
            sizes = self._sizes()
            saved = max(_complete(sizes), default=None)
            if saved is None:
                return None
            with self._errors("read"), contextlib.suppress(FileNotFoundError):
                for name in _wanted(sizes, saved.attempt, with_arrays):
                    target = folder / PurePosixPath(name).relative_to(f"attempt.{saved.attempt}")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    self._files.get_file(f"{self._root}/{name}", str(target))
                return saved
        raise StoreError(f"{self.url} cannot be read: its files change all the time")

    def progress(self) -> tuple[bytes, str | None]:
        """The end of the metrics of the newest attempt that has any, and the host that trains the run now."""
        sizes = self._sizes()
        leases = _leases(sizes)
        host = host_of(self._read(f"lease.{max(leases)}")) if leases else None  # None if that attempt has ended
        attempts = [number for number in _attempts(sizes) if f"attempt.{number}/{METRICS_FILE}" in sizes]
        name = f"attempt.{max(attempts, default=0)}/{METRICS_FILE}"
        if not attempts:
            return b"", host
        return end_of_lines(lambda start: self._read(name, start=start) or b"", sizes[name]), host

    def upload(self, source: Path, name: str) -> None:
        with self._errors("written"):
            target = f"{self._root}/{name}"
            self._make_parent(target)
            self._files.put_file(str(source), target)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, manifests first, so that no checkpoint is left without its arrays."""
        for name in sorted(names, key=lambda name: not name.endswith(f"/{MANIFEST}")):
            with self._errors("written"), contextlib.suppress(FileNotFoundError):
                self._files.rm_file(f"{self._root}/{name}")

    def empty(self, name: str) -> None:
        with self._errors("written"):
            self._files.pipe_file(f"{self._root}/{name}", b"")

    def take_lease(self) -> "StoreLease":
        """Create the lease of the next attempt."""
        sizes = self._sizes()
        number = max([*_leases(sizes), *_attempts(sizes)], default=0)
        content = new_content()
        while True:
            number += 1
            if self._create(f"lease.{number}", content):
                return StoreLease(self, number, content)

    def _create(self, name: str, content: bytes) -> bool:
        """Create an object that must not exist; False if another process has created it."""
        target = f"{self._root}/{name}"
        with self._errors("written"):
            self._make_parent(target)
            try:
                with self._files.open(target, "xb") as file:
                    file.write(content)
            except (NotImplementedError, ValueError, TypeError):
                print(
                    f"{self.url} has no conditional writes: never train this run in two processes at once",
                    file=sys.stderr,
                )
                if self._files.exists(target):
                    return False
                self._files.pipe_file(target, content)
            except Exception:  # not every store raises FileExistsError, and a repeated request may find its own object
                found = self._read(name)
                if found is None:
                    raise
                return found == content
        return True

    def _make_parent(self, path: str) -> None:
        """Create the folder of a file, in a store that has folders. Most object stores have none."""
        if not self._files.async_impl:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)

    def _read(self, name: str, start: int = 0) -> bytes | None:
        """The content of an object from a position on; None if there is no such object."""
        with self._errors("read"), contextlib.suppress(FileNotFoundError):
            # A range of an empty object is an error in S3.
            return self._files.cat_file(f"{self._root}/{name}", start=start or None)
        return None

    def _sizes(self) -> dict[str, int]:
        """The objects of the run, by their names within it, with their sizes."""
        with self._errors("read"):
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
        named = {path.removeprefix(self._root).lstrip("/"): about["size"] for path, about in found.items()}
        return {name: size for name, size in named.items() if name and ".." not in name.split("/")}

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise the errors of all kinds of stores, which have no common class, as an error of one line."""
        try:
            yield
        except TrustaxError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise StoreError(f"{self.url} cannot be {what}: {reason}") from error


class StoreLease:
    """The lease of this process on a run in a store; `StoredRun.take_lease` makes one."""

    def __init__(self, run: StoredRun, number: int, content: bytes) -> None:
        self.number = number
        self._run = run
        self._content = content

    def check(self) -> None:
        """Raise an error if a later attempt has taken over the run."""
        run = self._run
        sizes = run._sizes()
        later = [number for number in (*_leases(sizes), *_attempts(sizes)) if number > self.number]
        if later or run._read(f"lease.{self.number}") != self._content:
            holder = describe(run._read(f"lease.{max(later)}")) if later else ""
            raise TrustaxError(f"{run.url} was taken over by a later attempt{holder}; this one stops")

    def supersede(self) -> None:
        """Delete the files of earlier attempts."""
        self._run.delete(name for name in self._run._sizes() if 0 < _attempt_of(name) < self.number)

    def release(self) -> None:
        """Remove earlier leases and empty this one, unless a later attempt has taken over the run.

        An empty lease says that the attempt has ended. It stays, so that no other attempt gets the same number.
        """
        with contextlib.suppress(TrustaxError):
            self.check()
            self._run.empty(f"lease.{self.number}")
            self._run.delete(f"lease.{number}" for number in _leases(self._run._sizes()) if number < self.number)


def copy_to_store(path: Path, url: str) -> None:
    """Copy a file to a folder in a store."""
    StoredRun(url).upload(path, path.name)


def _connect(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it."""
    if not url.partition("://")[2]:
        raise TrustaxError(f"{url} is not a folder in a store; write it like s3://bucket/runs/x")
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise TrustaxError(f"{url} needs fsspec: pip install 'trustax[object-store]'") from None
    try:
        files, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise TrustaxError(f"{url} needs another package: {error}") from error
    except Exception as error:
        raise TrustaxError(f"{url} cannot be opened: {' '.join(str(error).split())[:300]}") from error
    return files, root.rstrip("/")


def _leases(names: Iterable[str]) -> list[int]:
    return [int(name.removeprefix("lease.")) for name in names if is_lease(name)]


def _attempts(names: Iterable[str]) -> set[int]:
    return {number for name in names if (number := _attempt_of(name))}


def _attempt_of(name: str) -> int:
    """The attempt that an object belongs to; 0 if it belongs to none."""
    found = re.match(r"attempt\.([1-9][0-9]{0,8})/.", name)
    return int(found[1]) if found else 0


def _complete(names: Iterable[str]) -> Iterator[Saved]:
    """The checkpoints that have a manifest and arrays."""
    names = set(names)
    for name in names:
        folder, _, last = name.rpartition("/")
        is_checkpoint = re.fullmatch(r"attempt\.\d+/checkpoints/step_\d{12,18}", folder) is not None
        if is_checkpoint and last == MANIFEST and f"{folder}/{ARRAYS}" in names:
            yield Saved(_attempt_of(name), int(folder.rpartition("step_")[2]))


def _wanted(names: Iterable[str], attempt: int, with_arrays: bool) -> list[str]:
    """The objects of an attempt to download. Checkpoints without a manifest are not complete, and left out."""
    own = {name for name in names if _attempt_of(name) == attempt}
    if not with_arrays:
        return sorted(own & {f"attempt.{attempt}/{RUN_FILE}", f"attempt.{attempt}/{METRICS_FILE}"})
    folder = f"attempt.{attempt}/checkpoints/"
    complete = {name.rpartition("/")[0] for name in own if name.endswith(f"/{MANIFEST}")}
    return sorted(name for name in own if not name.startswith(folder) or name.rpartition("/")[0] in complete)
