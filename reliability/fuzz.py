"""Opens damaged and hostile files, and checks that each is refused with a TrustaxError or read as it was.

`python -m reliability.fuzz 1000` tries a thousand. Each must take less than 2 s of processor time and 500 MB, and
must import and execute nothing.
"""

import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

import trustax as tx
from reliability.made import RUN, make_run, resumed, state_at
from reliability.mutations import CANARY, CHECKPOINT_MUTATIONS, FILE_MUTATIONS, JSON_MUTATIONS, Mutation
from trustax.plotting.curves import to_curve
from trustax.run import RUN_FILE, read_run
from trustax.storage.history import checkpoint_path
from trustax.storage.journal import METRICS_FILE, Journal, read_records
from trustax.storage.manifest import ARRAYS, MANIFEST

SECONDS = 2.0
MEGABYTES = 500
DEADLINE = 60
AGENT = "best.agent"
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "import")
SAVED = checkpoint_path("", 32)
TARGETS: list[tuple[str, list[Mutation]]] = [
    (f"{SAVED}/{ARRAYS}", FILE_MUTATIONS),
    (f"{SAVED}/{MANIFEST}", FILE_MUTATIONS),
    (f"{AGENT}/{MANIFEST}", FILE_MUTATIONS),
    (RUN_FILE, FILE_MUTATIONS + JSON_MUTATIONS),
    (METRICS_FILE, FILE_MUTATIONS + JSON_MUTATIONS),
    (f"{SAVED}", CHECKPOINT_MUTATIONS),
    (AGENT, CHECKPOINT_MUTATIONS),
]
"""The files and folders that are changed, each with its mutations."""


@dataclass(frozen=True)
class Case:
    """One mutation of a file or folder in a run's folder."""

    target: str
    mutation: Mutation
    seed: str

    def __str__(self) -> str:
        return f"{self.mutation.__name__} of {self.target} (seed {self.seed})"

    def apply(self, folder: Path) -> None:
        self.mutation(Random(self.seed), folder / self.target)


def cases(number: int, seed: int = 0) -> Iterator[Case]:
    """The first `number` cases of a seed: all mutations of all targets in random order, again and again."""
    every = [(target, mutation) for target, mutations in TARGETS for mutation in mutations]
    for index in range(number):
        if index % len(every) == 0:
            Random(f"{seed}:{index}").shuffle(every)
        yield Case(*every[index % len(every)], seed=f"{seed}:{index}")


def fuzz(number: int, seed: int = 0) -> tuple[int, int, list[str]]:
    """Try `number` cases; return how many were tried, how many passed, and why the others failed."""
    failures = []
    with TemporaryDirectory(prefix="trustax-fuzz-") as name:
        home = Path(name)
        os.environ[CANARY] = str(home / "canary")
        reader = Reader(home / "original")
        for case in cases(number, seed):
            folder = home / "case"
            shutil.copytree(home / "original", folder)
            case.apply(folder)
            reason = reason_to_fail(lambda folder=folder: reader.read(folder), home / "canary")  # type: ignore[misc]
            if reason is not None:
                failures.append(f"{case}: {reason}")
            shutil.rmtree(folder)
    return number, number - len(failures), failures


class Reader:
    """Reads a run's folder in every way, and compares the result with the original."""

    def __init__(self, original: Path) -> None:
        make_run(original)
        tx.load(original).save(original / AGENT)
        self._states = {iteration: state_at(RUN, iteration) for iteration in (2, 4)}
        self._agents = [self._states[iteration].learner.policy for iteration in (2, 4)]
        self.read(original)

    def read(self, folder: Path) -> None:
        """Read everything; each part may be refused."""
        for part in (self._read_agents, self._read_run, self._read_metrics):
            with refusal_allowed():
                part(folder)

    def _read_run(self, folder: Path) -> None:
        run = read_run(folder)
        state = resumed(folder, run, self._states[4])
        _require_equal(state, self._states[int(state.iteration)])

    def _read_agents(self, folder: Path) -> None:
        with refusal_allowed():
            _require_equal(tx.load(folder / AGENT).policy, jax.tree.map(lambda x: x[0], self._agents[1]))
        policy = tx.load(folder, learner=1).policy
        expected = [jax.tree.map(lambda x: x[1], policies) for policies in self._agents]
        _require_equal(policy, min(expected, key=lambda one: not _equal(one, policy)))

    def _read_metrics(self, folder: Path) -> None:
        to_curve(read_records(folder))
        Journal(folder, resume_at=32, batch_size=RUN.batch_size).close()


@contextmanager
def refusal_allowed() -> Iterator[None]:
    """Suppress a TrustaxError whose message is one line."""
    try:
        yield
    except tx.TrustaxError as error:
        if len(str(error).splitlines()) != 1:
            raise AssertionError(f"a message of several lines: {error}") from error


def reason_to_fail(read: Callable[[], object], canary: Path) -> str | None:
    """Call a reader under all limits; return what is wrong, or None."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with _Watch() as watch:
        try:
            read()
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    seconds = time.process_time() - began
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if canary.exists() or watch.events:
        return f"executed or imported: {watch.events}"
    if seconds > SECONDS or megabytes > MEGABYTES:
        return f"took {seconds:.1f} s and {megabytes:.0f} MB"
    return None


class _Watch:
    """Notes forbidden events while it is entered, and raises TimeoutError after a deadline."""

    _current: "_Watch | None" = None
    _installed = False

    def __init__(self) -> None:
        self.events: list[str] = []

    def __enter__(self) -> "_Watch":
        if not _Watch._installed:
            sys.addaudithook(_Watch._note)
            _Watch._installed = True
        _Watch._current = self
        self._handler = signal.signal(signal.SIGALRM, self._stop)
        signal.alarm(DEADLINE)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._handler)
        _Watch._current = None

    @staticmethod
    def _note(event: str, arguments: tuple[Any, ...]) -> None:
        if _Watch._current is not None and event in FORBIDDEN:
            _Watch._current.events.append(f"{event} {arguments[:1]}")

    @staticmethod
    def _stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"not finished after {DEADLINE} s")


def _equal(one: Any, other: Any) -> bool:
    def raw(leaf: Any) -> bytes:
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes()

    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(raw(first) == raw(second) for first, second in pairs)


def _require_equal(one: Any, other: Any) -> None:
    assert _equal(one, other), "it was read, but it is not what was saved"


if __name__ == "__main__":
    tried, passed, failures = fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    print(*failures, f"{passed} of {tried} passed", sep="\n")
    sys.exit(bool(failures))
