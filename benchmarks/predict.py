"""Compares how long `predict` takes for one observation with Stable-Baselines3: the same network, in turns.

usage: python benchmarks/predict.py            measure and save; a minute on a quiet core
       python benchmarks/predict.py --table    print the saved results as Markdown

The results are saved in results/benchmarks/predict.json. Each measurement is the median of 2,000 calls in its own
process. The peer is installed as by `benchmarks/compare.py`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import machine
from bars import Measurement
from contenders import PACKAGES, ROOT, Contender, install_peers, measure

RESULTS = ROOT / "results" / "benchmarks" / "predict.json"
ENV_IDS = ("CartPole-v1", "Pendulum-v1")
OURS, THEIRS = "Trustax", "Stable-Baselines3"


def contenders(calls: int) -> list[Contender]:
    listed = []
    for env_id in ENV_IDS:
        settings = {"env_id": env_id, "calls": calls}
        listed.append(
            Contender(f"{env_id}: {OURS}", "trustax_predict.py", settings, Path(sys.executable), threads="one")
        )
        listed.append(Contender(f"{env_id}: {THEIRS}", "sb3_predict.py", settings, threads="one"))
    return listed


def table(outcome: dict[str, Any]) -> str:
    """Medians over the rounds, and the lowest and highest round, as Markdown."""
    lines = ["| environment | actions | Trustax | Stable-Baselines3 | ratio |", "|---|---|---|---|---|"]
    for env_id in ENV_IDS:
        for kind in ("deterministic", "sampled"):
            ours, theirs = (_rounds(outcome["measurements"], f"{env_id}: {who}", kind) for who in (OURS, THEIRS))
            cells = [f"{median(each):.0f} µs ({min(each):.0f} to {max(each):.0f})" for each in (ours, theirs)]
            ratio = median(theirs) / median(ours)
            lines.append(f"| {env_id} | {kind} | {' | '.join(cells)} | {ratio:.1f} × |")
    return "\n".join([machine.in_words(outcome["machine"]) + ".", "", *lines])


def _rounds(measurements: list[Measurement], name: str, kind: str) -> list[float]:
    return [each["microseconds"][kind] for each in measurements if each["name"] == name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--torch", default=PACKAGES["torch"], metavar="REQUIREMENT")
    options = parser.parse_args()
    if options.table:
        return print(table(json.loads(RESULTS.read_text(encoding="utf-8"))))
    install_peers(options.torch, ("torch", "stable-baselines3"))
    measurements = []
    with tempfile.TemporaryDirectory() as folder:
        for contender in contenders(options.calls) * options.rounds:  # in turns, so that a busy machine slows everyone
            measurements.append(measure(contender, {}, folder))
            print(contender.name, measurements[-1].get("failed") or measurements[-1]["microseconds"], flush=True)
    outcome = {"machine": machine.describe(), "measurements": measurements}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    print(table(outcome))


if __name__ == "__main__":
    main()
