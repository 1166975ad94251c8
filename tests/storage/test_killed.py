"""Killed at random moments and taken up again, a run ends as if nothing had happened."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_training import measured
from trustax.storage import history as checkpoints
from trustax.storage.journal import read_records

KILLS = 20
SETTINGS = (
    "--num-seeds 2 --num-envs 4 --horizon 128 --total-timesteps 40960 --restart-interval 3 --checkpoint-seconds 0 "
    "--hidden-sizes 16 --num-epochs 4 --num-minibatches 8 --quiet"
)


def go_on(env: str, folder: Path, seconds: float | None = None) -> bool:
    """Begin or go on; whether it came to its end before it was killed, after so many seconds."""
    command = f"-m trustax.cli.main train mcpo --env-id {env} --run-dir {folder} --resume {SETTINGS}"
    try:
        done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:  # by then it has had a SIGKILL
        return False
    assert done.returncode == 0, done.stderr
    return True


def outcome(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """The digest of the last checkpoint's arrays, and all records without what a clock says."""
    newest = checkpoints.newest_valid(folder)
    assert newest is not None
    return hashlib.sha256((newest / "arrays.safetensors").read_bytes()).hexdigest(), measured(read_records(folder))


@pytest.mark.slow
@pytest.mark.parametrize("env", ["native:CartPole-v1", "envpool:CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_never_was(env: str, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    began = time.monotonic()
    assert go_on(env, whole)
    patience = np.random.default_rng(0).uniform(0, 0.6 * (time.monotonic() - began), KILLS)
    kills = next((n for n, seconds in enumerate(patience) if go_on(env, parts, seconds)), KILLS)
    assert kills > 2
    assert go_on(env, parts)
    assert outcome(parts) == outcome(whole)
    assert not list(parts.rglob(".tmp-*"))
    print(f"{env}: {kills} kills")
