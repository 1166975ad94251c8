"""Sweeps on a Ray cluster whose workers, nodes and driver are killed: no result is lost, doubled or changed."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from trustax.storage.history import newest_valid

STEPS = 128
SECONDS_BETWEEN_LOOKS = 0.02
SWEEP = """
import sys
import trustax as tx
from trustax.sweeps.engines import make_engine

folder, address, num_runs, num_iterations = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
result = tx.sweep(
    "mcpo",
    "native:CartPole-v1",
    folder=folder,
    engine=make_engine("ray", address=address) if address else make_engine("local", num_workers=2),
    quiet=True,
    num_envs=2,
    horizon=64,
    total_timesteps=128 * num_iterations,
    hidden_sizes=(8,),
    num_epochs=1,
    num_minibatches=2,
    memory_size=2,
    write_interval=[1 + index for index in range(num_runs)],  # a setting without effect: equal programs compile once
)
assert not result.failures, result.failures
"""
"""A sweep with a folder, the address of a cluster, a number of runs and a number of iterations."""


def start_sweep(folder: Path, address: str, num_runs: int, num_iterations: int) -> subprocess.Popen[bytes]:
    """Start a sweep in a process of its own: the driver."""
    arguments = [str(folder), address, str(num_runs), str(num_iterations)]
    return subprocess.Popen([sys.executable, "-c", SWEEP, *arguments], start_new_session=True)


def hashes(folder: Path) -> dict[str, str]:
    """A hash of the final arrays of each run."""
    found = {}
    for path in sorted(folder.glob("*/run.json")):
        saved = newest_valid(path.parent)
        assert saved is not None
        arrays = load_file(saved / "arrays.safetensors")
        content = b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))
        found[path.parent.name] = hashlib.sha256(content).hexdigest()
    return found


def every_step_once(folder: Path, num_iterations: int) -> bool:
    """Whether the metrics of every run have each iteration exactly once."""
    expected = [STEPS * (1 + index) for index in range(num_iterations)]
    return all(
        [json.loads(line)["time/total_timesteps"] for line in path.read_text().splitlines()] == expected
        for path in folder.glob("*/metrics.jsonl")
    )


def wait_for(condition: Callable[[], Any], seconds: float = 600.0) -> Any:
    """Wait until a condition returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError("the sweep does not advance")
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return found


def _has_saved(folder: Path) -> bool:
    return any(newest_valid(path.parent) is not None for path in folder.glob("*/run.json"))


def training_processes(folder: Path) -> list[int]:
    """The processes that hold a lease on a run of this sweep and still live."""
    found = []
    for path in folder.glob("*/lease.*"):
        try:
            number = json.loads(path.read_text())["pid"]
            os.kill(number, 0)
            found.append(number)
        except (OSError, ValueError):  # it has just ended
            continue
    return found


def kill_worker(folder: Path, choose: random.Random) -> None:
    """Kill a process that trains a run, or its parent, the process of Ray that started it."""
    number = choose.choice(wait_for(lambda: training_processes(folder)))
    try:
        if choose.random() < 0.5:
            number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(number, signal.SIGKILL)
    except OSError:  # it has ended in the meantime
        pass


def disturbed_sweep(
    folder: Path, num_runs: int, num_iterations: int, num_kills: int, num_nodes: int, pause: float = 4.0
) -> int:
    """Run a sweep on a cluster on this machine, with kills at random moments; returns the number of kills."""
    from ray.cluster_utils import Cluster

    def may_kill() -> bool:
        """Whether a run is being trained; the first kill also needs a checkpoint, from which the run resumes."""
        return kills < num_kills and bool(training_processes(folder)) and (kills > 0 or _has_saved(folder))

    choose = random.Random(0)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(num_nodes)]
    driver = start_sweep(folder, cluster.address, num_runs, num_iterations)
    kills = 0
    try:
        while driver.poll() is None:
            if may_kill():
                kind = ("worker", "node", "driver")[min(2, choose.randrange(4))] if kills else "node"
                if kind == "worker":
                    kill_worker(folder, choose)
                elif kind == "node":
                    cluster.remove_node(nodes.pop(choose.randrange(len(nodes))), allow_graceful=False)
                    nodes.append(cluster.add_node(num_cpus=1))
                else:
                    os.killpg(driver.pid, signal.SIGKILL)
                    driver.wait()
                    driver = start_sweep(folder, cluster.address, num_runs, num_iterations)
                kills += 1
            time.sleep(choose.uniform(0.2, pause) if kills else SECONDS_BETWEEN_LOOKS)
        if driver.returncode:
            raise RuntimeError(f"the sweep ended with exit code {driver.returncode}")
    finally:
        driver.kill()
        cluster.shutdown()
    return kills


def check(num_runs: int = 12, num_iterations: int = 150, num_kills: int = 10) -> tuple[int, int, list[str]]:
    """Compare a sweep with kills with an undisturbed one, run by run."""
    with tempfile.TemporaryDirectory() as name:
        calm, disturbed = Path(name) / "calm", Path(name) / "disturbed"
        if start_sweep(calm, "", num_runs, num_iterations).wait():
            return 1, 0, ["the undisturbed sweep failed"]
        kills = disturbed_sweep(disturbed, num_runs, num_iterations, num_kills, num_nodes=3)
        assert len(hashes(calm)) == num_runs
        failures = [
            f"{run} differs after {kills} kills"
            for run, expected in hashes(calm).items()
            if hashes(disturbed).get(run) != expected
        ]
        if not every_step_once(disturbed, num_iterations):
            failures.append("a step is missing or doubled")
        if kills < num_kills:
            failures.append(f"only {kills} of {num_kills} kills happened before the end")
    return num_runs, num_runs - len(failures), failures


if __name__ == "__main__":
    print(check(*map(int, sys.argv[1:])))
