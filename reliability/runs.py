"""Small training runs in processes of their own: how to start, kill, resume and compare them."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from trustax.algorithms import ALGORITHMS
from trustax.storage.history import newest_valid
from trustax.storage.journal import read_records

ROOT = Path(__file__).parent.parent
TIMES = {"time/fps", "time/time_elapsed", "time/update_share", "time/environment_share"}
"""Metrics that depend on the clock."""
SMALL = {"hidden_sizes": "16", "num_epochs": "2", "num_minibatches": "4", "value_epochs": "2", "eigen_interval": "2"}
"""Settings of the methods that make an update short; a method gets those that it has."""
ITERATIONS = 300
RUN = {"num_seeds": "2", "num_envs": "4", "horizon": "32", "total_timesteps": str(128 * ITERATIONS)}
EVALUATE: dict[str, Any] = {"callbacks": "evaluate:interval=50,episodes=2"}
KEPT = ("evaluations.jsonl", "best.agent/arrays.safetensors")
"""What the callback writes."""
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def measured(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records without the metrics that depend on the clock."""
    return [{name: value for name, value in one.items() if name not in TIMES} for one in records]


def command(method: str, env: str, folder: Path, faults: tuple[str, ...] = (), **settings: Any) -> list[str]:
    """The command that starts or resumes a small run, optionally with faults (see `reliability.faults`)."""
    known = {field.name for field in fields(ALGORITHMS[method])}
    options = {name: value for name, value in SMALL.items() if name in known} | RUN | settings
    flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    program = ["-m", "reliability.faults", *faults, "--"] if faults else ["-m", "trustax.cli.main"]
    train = ["train", method, "--env-id", env, "--run-dir", str(folder), "--resume", "--checkpoint-seconds", "0"]
    return [sys.executable, *program, *train, *flags, "--quiet"]


def start(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, **options
    )


def finish(arguments: list[str]) -> float:
    """Run to the end, and return the seconds it took."""
    began = time.monotonic()
    process = start(arguments)
    _, stderr = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {stderr.strip().splitlines()[-1:]}")
    return time.monotonic() - began


def outcome(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """The digest of the arrays in the newest checkpoint, and all records without times."""
    newest = newest_valid(folder)
    if newest is None:
        raise RuntimeError(f"{folder} has no checkpoint")
    return hashlib.sha256((newest / "arrays.safetensors").read_bytes()).hexdigest(), measured(read_records(folder))


def difference(folder: Path, reference: Path) -> str | None:
    """How a run differs from the uninterrupted one; None if all it has learned and written is equal."""
    (arrays, records), (expected_arrays, expected_records) = outcome(folder), outcome(reference)
    if arrays != expected_arrays:
        return "the arrays of the last checkpoint differ"
    if records != expected_records:
        return "the metrics differ"
    for kept in KEPT:
        if _content(folder / kept) != _content(reference / kept):
            return f"{kept} differs"
    leftovers = [path.name for path in (folder / "checkpoints").glob(".*")]
    return f"leftovers: {', '.join(leftovers)}" if leftovers else None


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def one_error_line(stderr: str) -> bool:
    """Whether a process reported an error as the command line should: in one line, without a traceback."""
    lines = [line for line in stderr.splitlines() if line.startswith("trustax: ")]
    return len(lines) == 1 and "Traceback" not in stderr


def wait_for_file(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file exists and is not empty, or the process has ended."""
    while process.poll() is None and not (path.exists() and path.stat().st_size):
        time.sleep(0.01)


def use_cache(folder: Path, quick: bool) -> None:
    """All processes share one cache of compiled programs; in a quick check they compile without optimization."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    if quick:
        os.environ["XLA_FLAGS"] = f"{QUICK_COMPILATION} {os.environ.get('XLA_FLAGS', '')}"
