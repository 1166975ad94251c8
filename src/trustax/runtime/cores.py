"""The CPU cores of this process."""

import os

CORES_VARIABLE = "TRUSTAX_NUM_CORES"
"""An environment variable with the largest number of cores to use, for jobs that share a machine without pinning."""


def available_cores() -> list[int]:
    """The cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    limit = os.environ.get(CORES_VARIABLE, "")
    return cores[: max(1, int(limit))] if limit.isdecimal() else cores
