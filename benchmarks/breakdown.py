"""Breaks the time of an iteration down into parts, and compares each part with the limits of the machine.

usage: python benchmarks/breakdown.py [--memory-size 10]
       python benchmarks/breakdown.py --table     print the saved results as Markdown

Rollout and update are timed by `trustax.training` on native Pendulum. Each part of an update is then timed alone, as a
compiled loop of many repetitions on arrays of the real shapes. Alone, a part cannot share work with its neighbors, so
the parts may add up to more than the whole.

The floor of a part is the larger of two times: its multiplications and additions at the speed of a large matrix product
on this machine, or reading every input and writing every result once at the speed of a copy. Activation functions and
random numbers count as free. Results are saved in results/benchmarks/breakdown.json.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import machine
from parts import HORIZON, NUM_ENVS, NUM_EPOCHS, NUM_MINIBATCHES, Work, parts_of

import trustax as tx
from trustax.networks import Architecture

RESULTS = Path(__file__).parent.parent / "results" / "benchmarks" / "breakdown.json"
TASK = "native:Pendulum-v1"
IN_CACHE = 1e6
"""Bytes that fit into the cache of a core; smaller parts are compared with a copy inside the cache."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory-size", type=int, default=10)
    parser.add_argument(
        "--iterations", type=int, default=20, help="timed training iterations, after one warm-up iteration"
    )
    parser.add_argument("--repetitions", type=int, default=1000, help="repetitions of each part of an update")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        return print(report(json.loads(options.results.read_text(encoding="utf-8"))))
    methods = {"PPO": None, f"MCPO N={options.memory_size}": options.memory_size}
    # Train first: this fixes the number of JAX threads for the whole process.
    trained = {name: train(memory_size, options.iterations) for name, memory_size in methods.items()}
    peak = Peak.measure()
    outcome: dict[str, Any] = {"machine": machine.describe() | {"jax": jax.__version__}, "peak": asdict(peak)}
    outcome["methods"] = {}
    for name, memory_size in methods.items():
        rollout, update = trained[name]
        rows = measure(rollout, memory_size, options.repetitions, peak)
        outcome["methods"][name] = {"update": update, "parts": [row._asdict() for row in rows]}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    print(report(outcome))


def report(outcome: dict[str, Any]) -> str:
    """The results as Markdown."""
    tables = (
        f"{name}\n\n{table([Row(**part) for part in method['parts']], method['update'])}"
        for name, method in outcome["methods"].items()
    )
    return "\n\n".join([str(Peak(**outcome["peak"])), *tables])


@dataclass(frozen=True)
class Peak:
    """The peak performance of the device, with as many threads as in training."""

    operations_per_second: float
    bytes_per_second_in_cache: float
    bytes_per_second: float

    @classmethod
    def measure(cls, side: int = 1024) -> "Peak":
        matrix, near, far = jnp.eye(side), jnp.zeros(1 << 16), jnp.zeros(1 << 26)
        product = seconds_of(lambda x: x @ matrix, matrix, 2)
        near_copy, far_copy = seconds_of(lambda x: x + 1, near, 1000), seconds_of(lambda x: x + 1, far, 8)
        return cls(2 * side**3 / product, 2 * near.nbytes / near_copy, 2 * far.nbytes / far_copy)

    def floor(self, operations: float, num_bytes: float) -> float:
        """The minimum time in seconds for this much work."""
        bandwidth = self.bytes_per_second_in_cache if num_bytes < IN_CACHE else self.bytes_per_second
        return max(operations / self.operations_per_second, num_bytes / bandwidth)

    def __str__(self) -> str:
        return (
            f"A large product reaches {self.operations_per_second / 1e9:.1f} GFLOP/s, "
            f"a copy {self.bytes_per_second_in_cache / 1e9:.1f} GB/s in cache and "
            f"{self.bytes_per_second / 1e9:.1f} GB/s beyond it."
        )


class Row(NamedTuple):
    """The measurement of one part."""

    name: str
    times: int
    seconds: float
    floor: float


def train(memory_size: int | None, iterations: int) -> tuple[float, float]:
    """The median time of a rollout and of an update, in seconds."""
    settings = {"num_epochs": NUM_EPOCHS, "num_minibatches": NUM_MINIBATCHES}
    algorithm = tx.PPO(**settings) if memory_size is None else tx.MCPO(memory_size=memory_size, **settings)
    steps = (1 + iterations) * NUM_ENVS * HORIZON
    result = tx.train(algorithm, TASK, total_timesteps=steps, num_envs=NUM_ENVS, horizon=HORIZON, quiet=True)
    timed = [(NUM_ENVS * HORIZON / record["time/fps"], record["time/update_share"]) for record in result.records[1:]]
    return median((1 - share) * total for total, share in timed), median(share * total for total, share in timed)


def measure(rollout: float, memory_size: int | None, repetitions: int, peak: Peak) -> list[Row]:
    """The rollout as timed in training, and every part of the update timed alone."""
    environment = tx.make(TASK, range(1), NUM_ENVS)
    environment.close()
    work = Work(Architecture(environment.spec))
    floor = peak.floor(work.forward(NUM_ENVS, critic=False), 4 * work.actor)
    rows = [Row(f"rollout: a step of {NUM_ENVS} environments", HORIZON, rollout / HORIZON, floor)]
    for part in parts_of(environment.spec, memory_size):
        seconds = seconds_of(part.step, part.carry, repetitions if part.times > 1 else 2)
        rows.append(Row(part.name, part.times, seconds, peak.floor(part.operations, part.num_bytes)))
    return rows


def table(rows: list[Row], update: float) -> str:
    """The parts, the remainder of the update, and the whole iteration, as Markdown."""
    rollout, *parts = rows
    iteration = rollout.times * rollout.seconds + update
    rest = update - sum(row.times * row.seconds for row in parts)
    lines = [
        "| part | times | µs each | floor, µs | × floor | ms an iteration | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        whole = row.times * row.seconds
        lines.append(
            f"| {row.name} | {row.times} | {1e6 * row.seconds:.1f} | {1e6 * row.floor:.2f} "
            f"| {row.seconds / row.floor:.1f} | {1e3 * whole:.1f} | {whole / iteration:.0%} |"
        )
    for name, whole in (("the rest of the update", rest), ("the iteration", iteration)):
        lines.append(f"| {name} | | | | | {1e3 * whole:.1f} | {whole / iteration:.0%} |")
    return "\n".join(lines)


def seconds_of(step: Callable[[Any], Any], carry: Any, repetitions: int) -> float:
    """The time of one step inside a compiled loop, best of five."""
    loop = jax.jit(lambda carry: jax.lax.scan(lambda x, _: (step(x), None), carry, None, length=repetitions)[0])
    jax.block_until_ready(loop(carry))
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        jax.block_until_ready(loop(carry))
        best = min(best, time.perf_counter() - began)
    return best / repetitions


if __name__ == "__main__":
    main()
