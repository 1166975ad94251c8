"""What starting a run changes for a while is as it was afterwards; a damaged cache of programs does no harm."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trustax.runtime.compilation import without_garbage_collection


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_collection_is_restored_even_after_an_error(is_on: bool) -> None:
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(ValueError, match="True"), without_garbage_collection():
            raise ValueError(f"garbage collection is off: {not gc.isenabled()}")
        assert gc.isenabled() == is_on
    finally:
        gc.enable()


def test_a_damaged_entry_of_the_compilation_cache_goes_unnoticed(tmp_path: Path) -> None:
    """A process that is killed while it writes an entry leaves a part of it."""
    command = [sys.executable, "-m", "trustax", "train", "ppo", "--env-id", "CartPole-v1", "--total-timesteps", "256"]
    command += ["--num-envs", "2", "--horizon", "64", "--num-epochs", "1", "--num-minibatches", "2", "--quiet"]
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for number in range(2):
        run = subprocess.run(
            [*command, "--run-dir", str(tmp_path / f"run-{number}")],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Warning" not in run.stderr
        entries = list((tmp_path / "cache").glob("*-cache"))
        assert entries
        for path in entries:
            path.write_bytes(path.read_bytes()[:100])
