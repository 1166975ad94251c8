"""Measures how much faster two processes train the same four seeds than one process.

usage: python benchmarks/distributed.py [--steps COUNT] [--repetitions COUNT] [--method NAME]

Three ways take turns, each with the same settings and the same seeds:

- one process on one core;
- two processes with one core each, which train two seeds each (`trustax train --coordinator ...`);
- one process on both cores, one CPU device for each, as `trustax train` does by itself.

Processes are pinned to their cores. The time of a run is that of all iterations after the first one, from the metrics
of process 0, so starting, compiling and the first iteration do not count, but waiting for the other process does.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import machine

NUM_SEEDS = 4


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(cores: list[int], arguments: list[str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "trustax", "train", *arguments]
    return subprocess.Popen(
        command, preexec_fn=lambda: os.sched_setaffinity(0, cores), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def run(processes: list[list[int]], method: str, steps: int) -> float:
    """Train with one process for each list of cores; steps per second of all seeds."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        arguments = [method, "--env-id", "Pendulum-v1", "--total-timesteps", str(steps), "--quiet", "--loggers"]
        arguments += ["--num-seeds", str(NUM_SEEDS), "--run-dir", str(folder), "--checkpoint-seconds", "1000000"]
        if len(processes) > 1:
            arguments += ["--coordinator", f"localhost:{free_port()}", "--num-processes", str(len(processes))]
        started = [
            start(cores, [*arguments, *(["--process-id", str(number)] if len(processes) > 1 else [])])
            for number, cores in enumerate(processes)
        ]
        for process in started:
            _, errors = process.communicate()
            if process.returncode:
                raise SystemExit(errors.decode())
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    first, last = records[0], records[-1]
    done = last["time/total_timesteps"] - first["time/total_timesteps"]
    return NUM_SEEDS * done / (last["time/time_elapsed"] - first["time/time_elapsed"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps of each seed")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--method", default="mcpo")
    options = parser.parse_args()
    one, other, *_ = sorted(os.sched_getaffinity(0))
    ways = {
        "one process on one core": [[one]],
        "two processes with one core each": [[one], [other]],
        "one process on both cores": [[one, other]],
    }
    speeds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.repetitions):
        for way, processes in ways.items():
            speeds[way].append(run(processes, options.method, options.steps))
            print(f"{way}: {speeds[way][-1]:,.0f} steps/s", file=sys.stderr)
    base = median(speeds["one process on one core"])
    print(f"{machine.in_words(machine.describe())}. {options.method} on Pendulum-v1, {NUM_SEEDS} seeds of ", end="")
    print(f"{options.steps:,} steps, medians of {options.repetitions} runs:\n")
    print("| way | steps per second of all seeds | against one core |\n|---|---|---|")
    for way, values in speeds.items():
        print(f"| {way} | {median(values):,.0f} | {median(values) / base:.2f} |")


if __name__ == "__main__":
    main()
