"""Shared by the scripts in this folder: read the settings from one JSON argument, print the result as one JSON line.

Uses only the standard library, because the scripts run in different Python environments.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from types import SimpleNamespace
from typing import Any


def read_settings() -> SimpleNamespace:
    """Read the settings from the first argument; `benchmarks/compare.py` defines them."""
    return SimpleNamespace(**json.loads(sys.argv[1]))


def report(settings: SimpleNamespace, packages: list[str], **outcome: Any) -> None:
    """Print the measurement with the peak memory of the process and the package versions."""
    line = {"name": settings.name, **outcome, "peak_memory_mb": round(_peak_memory() / 1e6, 1)}
    print(json.dumps(line | {"versions": {package: _version(package) for package in packages}}))


def median_microseconds(call: Callable[[], Any], calls: int) -> float:
    """The median duration of a call, after some calls that are not timed."""
    for _ in range(100):
        call()
    durations = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        durations.append(time.perf_counter() - began)
    return 1e6 * median(durations)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source, not installed"


def _peak_memory() -> int:
    """Peak memory in bytes; `ru_maxrss` is in kilobytes on Linux and in bytes on macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
