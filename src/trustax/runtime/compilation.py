"""Compiling: programs are kept on disk, so that the second run of a shape starts at once, and memory is given back."""

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from trustax.runtime.cores import available_cores


def cache_compilations() -> None:
    """Switch JAX's persistent cache on, unless the user has set one up."""
    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "trustax" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def compiler_options(platform: str) -> dict[str, Any] | None:
    """What XLA is told beyond its defaults."""
    if platform != "gpu":
        return None
    return {
        # What does not depend on each other, of a GPU's many small kernels, runs at the same time.
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        # XLA would compile with as many threads as it computes with on the CPU, which is one (`use_cores`).
        "xla_gpu_force_compilation_parallelism": len(available_cores()),
    }


def jit_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what runs a single time; on a CPU without optimising it, which would take longer than running it."""
    platform = jax.default_backend()
    options = {"xla_backend_optimization_level": 0} if platform == "cpu" else compiler_options(platform)
    return jax.jit(function, compiler_options=options)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Tracing makes a great many objects that stay. To look through them for garbage again and again is of no use."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def release_memory() -> None:
    """Give back what the compiler has freed. The C library keeps it otherwise, as much again as a small run needs."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # not glibc
        return
