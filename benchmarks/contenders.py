"""The contenders of a comparison, their settings, and how one is measured; `compare.py` runs them in turns."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bars import BASELINE, FIRST_RUN, HALF_CHEETAH, LUNAR_LANDER, PENDULUM, Measurement

ROOT = Path(__file__).absolute().parent.parent
SCRIPTS = ROOT / "benchmarks" / "peers"
PEERS = ROOT / ".venv-peers" / "bin" / "python"
PACKAGES = {
    "torch": "torch==2.13.0",
    "stable-baselines3": "stable-baselines3>=2.9,<3",
    "sb3-contrib": "sb3-contrib>=2.9,<3",
    "mujoco": "gymnasium[box2d,mujoco]>=1.1,<1.5",
    "sbx-rl": "sbx-rl>=0.28,<1",
    "gymnax": "gymnax==0.0.9",
    "rejax": "rejax==0.1.3",
}
"""The packages of the peers' environment in the order of installation. PyTorch comes first, so that no later package
installs another build."""
SETTINGS: dict[str, Any] = {
    "num_seeds": 1,
    "num_envs": 4,
    "horizon": 2048,
    "num_epochs": 10,
    "minibatch_size": 128,
    "learning_rate": 3e-4,
    "discount": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "value_cost": 0.5,
    "max_gradient_norm": 0.5,
    "hidden_sizes": [64, 64],
}
ONE_THREAD = {"NPROC": "1", "OMP_NUM_THREADS": "1"}
"""Limits XLA and PyTorch to one thread each."""


@dataclass(frozen=True)
class Contender:
    """A script with its settings. Peers are measured with all threads and with one; the faster setting counts."""

    name: str
    script: str
    settings: dict[str, Any]
    python: Path = PEERS
    threads: str = "all"
    platform: str = "cpu"
    """JAX's platform; empty for JAX's default"""
    timeout: float = 900.0
    """timeout in seconds"""


def contenders() -> list[Contender]:
    """All contenders in the order of a round."""
    listed = []

    def ours(task: str, contender: str, engine: str, memory_size: int | None, num_seeds: int = 1) -> None:
        settings = {"env_id": f"{engine}:{task}", "memory_size": memory_size, "num_seeds": num_seeds}
        settings |= {"warmup": 2, "iterations": 30}
        listed.append(
            Contender(f"{task}: Trustax {contender}", "trustax_speed.py", settings, python=Path(sys.executable))
        )

    def theirs(task: str, contender: str, script: str, **settings: Any) -> None:
        for threads in ("all", "one"):
            listed.append(Contender(f"{task}: {contender}", script, {"env_id": task} | settings, threads=threads))

    ours(PENDULUM, "PPO", "native", None)
    for size in (5, 10, 40):
        ours(PENDULUM, f"MCPO N={size}", "native", size)
    ours(PENDULUM, "PPO, 4 seeds", "native", None, 4)
    ours(PENDULUM, "MCPO N=10, 4 seeds", "native", 10, 4)
    # rejax compiles again on its second call, because its first state has other types than later ones.
    theirs(PENDULUM, "rejax PPO", "rejax_speed.py", warmup=2, iterations=30)
    for task in (PENDULUM, LUNAR_LANDER, HALF_CHEETAH):
        if task != PENDULUM:
            ours(task, "MCPO N=10", "envpool", 10)
        theirs(task, BASELINE, "sb3_speed.py", library="stable_baselines3", warmup=1, iterations=3)
        theirs(task, "SBX PPO", "sb3_speed.py", library="sbx", warmup=1, iterations=3)
    first_run = {"env_id": PENDULUM}
    return [*listed, Contender(FIRST_RUN, "trustax_first_run.py", first_run, python=Path(sys.executable))]


def install_peers(torch: str, names: Iterable[str] = tuple(PACKAGES)) -> None:
    """Create the peers' environment or add missing packages; print those that fail to install."""
    if not PEERS.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS.parent.parent], check=True)
    listing = subprocess.run([PEERS, "-m", "pip", "list", "--format=json"], check=True, capture_output=True, text=True)
    present = {package["name"].lower().replace("_", "-") for package in json.loads(listing.stdout)}
    for name, requirement in (PACKAGES | {"torch": torch}).items():
        if name in names and name not in present:
            print(f"installing {requirement}", flush=True)
            done = subprocess.run([PEERS, "-m", "pip", "install", "--quiet", *shlex.split(requirement)])
            if done.returncode:
                print(f"{requirement} did not install; contenders that need it will fail", flush=True)


def measure(contender: Contender, settings: dict[str, Any], folder: str) -> Measurement:
    """Run one script in a new process inside a folder for its caches and logs; on failure, return the reason."""
    variables = os.environ | {"JAX_PLATFORMS": contender.platform, "XDG_CACHE_HOME": folder}
    variables |= ONE_THREAD if contender.threads == "one" else {}
    argument = json.dumps(SETTINGS | contender.settings | settings | {"name": contender.name})
    load = os.getloadavg()[0]
    command = [contender.python, SCRIPTS / contender.script, argument]
    about = {"name": contender.name, "threads": contender.threads, "load_before": round(load, 2)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, cwd=folder, timeout=contender.timeout
        )
        return json.loads(done.stdout.splitlines()[-1]) | about
    except subprocess.TimeoutExpired:
        return about | {"failed": f"took longer than {contender.timeout:.0f} s"}
    except (IndexError, ValueError):
        last_line = (done.stderr.strip().splitlines() or ["the script printed nothing"])[-1]
        return about | {"failed": last_line.replace(str(ROOT), ".")}
