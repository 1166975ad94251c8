"""Compiled programs are kept on disk, so that the second run of a shape starts at once."""

import os
from pathlib import Path

import jax


def cache_compilations() -> None:
    """Switch JAX's persistent cache on, unless the user has set one up."""
    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "trustax" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
