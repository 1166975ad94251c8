"""Compilation: a persistent cache, so that later runs of the same shapes start fast; options; release of memory."""

import ctypes
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from trustax.runtime.cores import available_cores


def cache_compilations() -> None:
    """Enable JAX's persistent compilation cache, unless the user has configured one."""
    # JAX does not write entries atomically: a process that is killed while it writes one leaves a part of it, and one
    # that reads it meanwhile sees a part. JAX then warns and compiles the program. Users need not know.
    warnings.filterwarnings("ignore", message="Error reading persistent compilation cache entry")
    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "trustax" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def compiler_options(platform: str) -> dict[str, Any] | None:
    """XLA's options for a platform; None for its defaults."""
    if platform != "gpu":
        return None
    return {
        # Run independent kernels at the same time; a program has many small ones.
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        # By default XLA compiles with as many threads as it uses for computing on the CPU: one (see `use_cores`).
        "xla_gpu_force_compilation_parallelism": len(available_cores()),
    }


def jit_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that runs once; on a CPU without optimization, which would take longer than running it."""
    platform = jax.default_backend()
    options = {"xla_backend_optimization_level": 0} if platform == "cpu" else compiler_options(platform)
    return jax.jit(function, compiler_options=options)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, for tracing: its many objects all stay alive, so scans find no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_memory() -> None:
    """Return memory that the compiler has freed to the system. Keeping it would double the memory of a small run."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # not glibc
        return
