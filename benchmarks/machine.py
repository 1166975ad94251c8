"""A description of the machine for published results, without host names and paths."""

import os
import platform
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """The processor, the cores available to this process, memory, system and Python version."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_gb": round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def in_words(machine: dict[str, Any]) -> str:
    """The description as one line of text."""
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
    return (
        f"{machine['processor']}, {cores}, {machine['memory_gb']} GB, {machine['system']}, Python {machine['python']}"
    )


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
