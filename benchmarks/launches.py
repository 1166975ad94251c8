"""Counts the GPU kernels that one update and one environment step launch, in a profile.

usage: python benchmarks/launches.py [METHOD ...]     PPO, or the memory size of MCPO; default: PPO 10 1000
       python benchmarks/launches.py --table          print the saved results as Markdown

XLA launches a whole loop iteration as one command buffer, in which a profile does not show single kernels. Command
buffers are therefore disabled while counting. Times are those of the kernels, without the gaps between them. The task
is native Pendulum with one seed. Results are saved in results/benchmarks/launches-<device>.json.
"""

import argparse
import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from contenders import SETTINGS
from scaling import FOLDER, NUM_MINIBATCHES, device_in_use, in_own_process, results_path

PPO = "PPO"
NO_COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer="
ITERATIONS = 2
NUM_ENVS, HORIZON = SETTINGS["num_envs"], SETTINGS["horizon"]
NUM_UPDATES = SETTINGS["num_epochs"] * NUM_MINIBATCHES
PARTS = {"jit__learn": ("an update", NUM_UPDATES), "jit_collect": ("a step", HORIZON)}
"""Compiled program → the repeated unit and its number of repetitions per iteration."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=[PPO, "10", "1000"], metavar="METHOD")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder for the results")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        files = sorted(options.folder.glob("launches-*.json"))
        return print("\n\n".join(table(json.loads(path.read_text(encoding="utf-8"))) for path in files))
    device = in_own_process(device_in_use)
    if device["platform"] == "cpu":
        parser.error("JAX has no GPU here; run this where jax.devices() shows a GPU")
    outcome: dict[str, Any] = {"device": device, "methods": {}}
    path = results_path(options.folder, "launches", device)
    for method in options.methods:
        name = PPO if method == PPO else f"MCPO N={method}"
        outcome["methods"][name] = in_own_process(count, None if method == PPO else int(method))
        path.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    print(table(outcome))


def count(memory_size: int | None) -> dict[str, dict[str, float]]:
    """Kernels, copies and microseconds per update and per step, in a short training run."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {NO_COMMAND_BUFFERS}"
    import jax

    import trustax as tx

    algorithm = tx.PPO() if memory_size is None else tx.MCPO(memory_size=memory_size)
    assert algorithm.num_epochs * algorithm.num_minibatches == NUM_UPDATES
    settings = {"num_envs": NUM_ENVS, "horizon": HORIZON, "total_timesteps": ITERATIONS * NUM_ENVS * HORIZON}
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            tx.train(algorithm, "native:Pendulum-v1", quiet=True, **settings)
        (profile,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(profile))
    kernels, copies, nanoseconds = Counter[str](), Counter[str](), Counter[str]()
    for event in (
        event
        for plane in data.planes
        if plane.name.startswith("/device:GPU")
        for line in plane.lines
        if line.name.startswith("Stream")
        for event in line.events
    ):
        program = str(dict(event.stats).get("hlo_module"))
        (copies if event.name.startswith("Mem") else kernels)[program] += 1
        nanoseconds[program] += event.duration_ns
    return {
        part: {
            "kernels": kernels[program] / (ITERATIONS * times),
            "copies": copies[program] / (ITERATIONS * times),
            "microseconds": nanoseconds[program] / (ITERATIONS * times) / 1000,
        }
        for program, (part, times) in PARTS.items()
    }


def table(outcome: dict[str, Any]) -> str:
    """The counts as Markdown."""
    rows = [
        f"| {method} | {part} | {counts['kernels']:.1f} | {counts['copies']:.1f} | {counts['microseconds']:.0f} µs |"
        for method, parts in outcome["methods"].items()
        for part, counts in parts.items()
    ]
    head = [f"| {outcome['device']['name']} | for | kernels | copies | they run |", "|---|---|---|---|---|"]
    return "\n".join(head + rows)


if __name__ == "__main__":
    main()
