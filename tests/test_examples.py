"""The programs in examples/ run, each for one or two iterations."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from trustax.algorithms import ALGORITHMS
from trustax.networks import NETWORKS

FOLDER = Path(__file__).parent.parent / "examples"
PRINTED = {
    "train_and_plot": r"Result\(ppo on CartPole-v1, 3 seeds, 1,024 steps.*\nreturn .* over 10 episodes",
    "compare_methods": r"MCPO: .* ± .*, 95% interval.*\nPPO: .* ± .*, 95% interval",
    "gymnasium_environment": r"(✓ .*\n){10}return .* over 10 episodes \(mean length 48\)",
    "jax_environment": r"over 20 episodes \(mean length .*, success rate",
    "own_algorithm": r"ε = 0.1: return .*\nε = 0.2: return .*\nε = 0.4: return",
    "own_network": r"waves return .* over 10 episodes",
    "sweep": r"(?s)ppo learning_rate=0.0003 .*ppo learning_rate=0.001 .*ppo learning_rate=0.003 ",
    "resume_and_evaluate": r"stopped after 1,024 steps\nended after 2,048 steps\n(return .* over 10 episodes.*\n){3}",
}
FILES = {
    "train_and_plot": ["curve.png", "cartpole.agent/manifest.json"],
    "compare_methods": ["comparison.png"],
    "sweep": ["sweep.png", "sweep/results.csv"],
    "resume_and_evaluate": ["runs/resumed/run.json"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for registry in (ALGORITHMS, NETWORKS):
        monkeypatch.setattr(registry, "_entries", dict(registry))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    steps = 2048 if name == "resume_and_evaluate" else 1024
    monkeypatch.setattr(sys, "argv", [name, str(steps)])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(PRINTED[name], printed), printed
    assert [file for file in FILES.get(name, []) if not (tmp_path / file).exists()] == []


def test_every_example_is_tested() -> None:
    elsewhere = {"control_loop_onnx"}  # tests/storage/test_export.py
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PRINTED) | elsewhere
