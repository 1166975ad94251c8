"""Measures the time from `trustax train …` to its first numbers, without and with cached compilations.

usage: trustax_first_run.py SETTINGS        one JSON object
The command runs in a pseudo-terminal and is stopped as soon as its progress bar shows a speed.
"""

import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurement import read_settings, report

TIMEOUT = 300.0
FIRST_NUMBERS = b"steps/s"


def seconds_to_first_numbers(command: list[str], folder: str) -> float:
    """Start the command, and stop it as soon as its progress bar shows a speed."""
    controller, terminal = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
    variables |= {"XDG_CACHE_HOME": folder, "TERM": "xterm", "COLUMNS": "200"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder, env=variables, start_new_session=True
    )
    os.close(terminal)
    seen = b""
    try:
        while FIRST_NUMBERS not in seen:
            try:
                seen += os.read(controller, 4096)
            except OSError:  # the command has exited
                raise SystemExit(f"the command ended before it showed a speed:\n{seen.decode()}") from None
            if time.perf_counter() - began > TIMEOUT:
                raise SystemExit(f"no speed was shown within {TIMEOUT:.0f} s:\n{seen.decode()}")
        return time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(controller)


settings = read_settings()
command = [str(Path(sys.executable).with_name("trustax")), "train", "mcpo", "--env-id", settings.env_id]
command += ["--num-envs", str(settings.num_envs), "--horizon", str(settings.horizon)]
with tempfile.TemporaryDirectory() as folder:
    cold, warm = (seconds_to_first_numbers(command, folder) for _ in range(2))
report(settings, ["trustax", "jax"], cold_seconds=cold, warm_seconds=warm)
