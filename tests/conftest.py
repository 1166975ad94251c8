"""Settings of all tests: quick compilation, bounded memory, and errors where arrays would broadcast silently."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings

# Most programs of the tests run for a moment, so most of a test is compilation. These flags divide its time by three
# and its memory by two. XLA reads them when it first compiles; flags of the caller come last and win.
QUICK_COMPILATION = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
if QUICK_COMPILATION[0] not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = " ".join([*QUICK_COMPILATION, os.environ.get("XLA_FLAGS", "")])

jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling may take longer than a deadline. The same examples in every run: a failure is a failure for everyone.
settings.register_profile("fast", max_examples=20, deadline=None, derandomize=True, database=None)
settings.register_profile("full", max_examples=500, deadline=None, derandomize=True, database=None)
settings.load_profile("fast")

MANY_BYTES = 1_400_000_000
"""A file of tests adds less than half of this, so a worker stays below 2.5 GB."""


def pytest_configure(config: pytest.Config) -> None:
    """All workers, and the processes that tests start, share one cache of compiled programs for the session."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="trustax-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)


def pytest_collection_finish() -> None:
    """Tracing makes many objects that are soon freed, so look for cycles less often and not among the modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not say."""
    statistics = Path("/proc/self/statm")
    return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statistics.exists() else 0


@pytest.fixture(scope="module", autouse=True)
def release_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget the programs of a file after its tests; those that all files share only when they have become many."""
    yield
    from trustax.runtime.compilation import release_memory  # an import above would come before jaxtyping's hook

    for value in vars(request.module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
    if resident_bytes() > MANY_BYTES:
        jax.clear_caches()
        gc.collect()
        release_memory()
