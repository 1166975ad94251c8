"""Measures how our speed scales with memory size, seeds, environments and horizon on JAX's default device.

usage: python benchmarks/scaling.py [PART ...]              memory, seeds, environments, horizon; default: all
       python benchmarks/scaling.py seeds --sizes 1 16 256  other sizes than the device's default
       python benchmarks/scaling.py seeds --methods rejax   measure rejax instead, which must be installed
       python benchmarks/scaling.py --table                 print the saved results of all devices as Markdown
       python benchmarks/scaling.py --draw                  plot the saved results to docs/scaling.png

Each measurement is saved immediately in results/benchmarks/scaling-<device>.json, where it replaces an earlier one of
the same kind. Measuring does not need matplotlib.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import contenders
import machine
from bars import PENDULUM
from contenders import SETTINGS, Contender
from scaled import MCPO, METHODS, PPO, REJAX, draw, tables

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "benchmarks"
PICTURE = ROOT / "docs" / "scaling.png"
SIZES = {
    "memory": (1, 2, 5, 10, 20, 40, 100, 400, 1000),
    "seeds": (1, 2, 4, 8, 16),
    "environments": (1, 4, 16, 64, 256),
    "horizon": (128, 512, 2048, 8192),
}
SIZES_OF_AN_ACCELERATOR = SIZES | {
    "seeds": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "environments": (1, 4, 16, 64, 256, 1024, 4096),
}
NUM_MINIBATCHES = SETTINGS["num_envs"] * SETTINGS["horizon"] // SETTINGS["minibatch_size"]
AXES = {"seeds": "num_seeds", "environments": "num_envs", "horizon": "horizon"}
HAS = {PPO: tuple(AXES), REJAX: ("seeds",)}
"""The parts that apply to a method, if not all do; PPO, for example, has no memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[MCPO, PPO])
    parser.add_argument("--iterations", type=int, default=5, help="timed iterations, after two warm-up iterations")
    parser.add_argument("--patience", type=float, default=300, help="timeout of a measurement in seconds")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder for the results")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.table or options.draw:
        files = sorted(options.folder.glob("scaling-*.json"))
        devices = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        return draw(devices, PICTURE) if options.draw else print(tables(devices))
    if unknown := [part for part in options.parts if part not in SIZES]:
        parser.error(f"there is no part {unknown[0]!r}; choose from {', '.join(SIZES)}")
    chosen = options.parts or list(SIZES), options.methods, options.sizes
    measure_all(*chosen, options.iterations, options.patience, options.folder)


def measure_all(
    parts: list[str], methods: list[str], sizes: list[int] | None, iterations: int, patience: float, folder: Path
) -> None:
    """Measure one after another, and save the results after each measurement."""
    device = in_own_process(device_in_use)
    usual = SIZES if device["platform"] == "cpu" else SIZES_OF_AN_ACCELERATOR
    path = results_path(folder, "scaling", device)
    kept = json.loads(path.read_text(encoding="utf-8"))["measurements"] if path.exists() else []
    chosen = [(part, size, method) for part in parts for size in sizes or usual[part] for method in methods]
    chosen = [(part, size, method) for part, size, method in chosen if part in HAS.get(method, SIZES)]
    for number, (part, size, method) in enumerate(chosen, 1):
        measured = measure(part, size, method, iterations, patience)
        print(f"[{number}/{len(chosen)}] {summary_line(measured)}", flush=True)
        kept = merge(kept, measured)
        content = {"device": device, "machine": machine.describe(), "measurements": kept}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def results_path(folder: Path, what: str, device: dict[str, str]) -> Path:
    """The results file of a device. Creates the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{what}-{device['name'].lower().replace(' ', '-')}.json"


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process, because JAX fixes its devices and threads once per process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def device_in_use() -> dict[str, str]:
    """JAX's default device."""
    import jax

    device = jax.devices()[0]
    name = "CPU" if device.platform == "cpu" else device.device_kind
    return {"name": name, "platform": device.platform, "jax": jax.__version__}


def measure(part: str, size: int, method: str, iterations: int, patience: float) -> dict[str, Any]:
    """Measure one training run in its own process, as `compare.py` does, but on JAX's default device."""
    settings = {axis: SETTINGS[axis] for axis in AXES.values()} | ({AXES[part]: size} if part in AXES else {})
    minibatch_size = settings["num_envs"] * settings["horizon"] // NUM_MINIBATCHES
    memory_size = None if method != MCPO else size if part == "memory" else 10
    script, engine = ("rejax_speed.py", "") if method == REJAX else ("trustax_speed.py", "native:")
    task = {"env_id": f"{engine}{PENDULUM}", "memory_size": memory_size, "minibatch_size": minibatch_size}
    contender = Contender(method, script, task, Path(sys.executable), platform="", timeout=patience)
    with tempfile.TemporaryDirectory() as folder:
        outcome = contenders.measure(contender, settings | {"warmup": 2, "iterations": iterations}, folder)
    about = {"part": part, "size": size, "method": method, "settings": settings}
    if "failed" in outcome:
        return about | {"failed": outcome["failed"]}
    return about | {"steps_per_second": [outcome["steps_per_second"]], "update_share": outcome.get("update_share")}


def summary_line(measured: dict[str, Any]) -> str:
    """One line about a measurement."""
    speeds = measured.get("steps_per_second")
    outcome = f"{median(speeds):,.0f} steps/s" if speeds else f"failed: {measured['failed']}"
    return f"{measured['part']} {measured['size']}, {measured['method']}: {outcome}"


def merge(kept: list[dict[str, Any]], measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a measurement, replacing an earlier one of the same kind."""

    def kind(measurement: dict[str, Any]) -> tuple[int, str, int]:
        return list(SIZES).index(measurement["part"]), measurement["method"], measurement["size"]

    return sorted([*(old for old in kept if kind(old) != kind(measured)), measured], key=kind)


if __name__ == "__main__":
    main()
