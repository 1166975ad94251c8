"""What every measuring script in this folder shares: settings come in as one JSON argument, one JSON line goes out.

Only the standard library is used here, because the scripts run in different Python environments.
"""

import json
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any


def read_settings() -> SimpleNamespace:
    """The first argument; `benchmarks/compare.py` says what is in it."""
    return SimpleNamespace(**json.loads(sys.argv[1]))


def report(settings: SimpleNamespace, packages: list[str], **outcome: Any) -> None:
    """Print the outcome of the measurement, with the process's peak memory and the versions of what was measured."""
    line = {"name": settings.name, **outcome, "peak_memory_mb": round(_peak_memory() / 1e6, 1)}
    print(json.dumps(line | {"versions": {package: _version(package) for package in packages}}))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source, not installed"


def _peak_memory() -> int:
    """In bytes; the system counts in kilobytes on Linux and in bytes on macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
