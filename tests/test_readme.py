"""The README's own example and commands."""

import re
from pathlib import Path

import pytest

import trustax as tx
from trustax.algorithms import ALGORITHMS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLE, CALLBACKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(
    "steps", ["8_192", pytest.param("1_000_000", marks=pytest.mark.slow)], ids=["shortened", "as-printed"]
)
def test_the_example_runs(steps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "total_timesteps=1_000_000" in EXAMPLE
    exec(compile(EXAMPLE.replace("1_000_000", steps), "README.md", "exec"), {})
    assert (tmp_path / "curve.png").stat().st_size > 0
    assert (tmp_path / "pendulum.agent" / "manifest.json").exists()


def test_the_example_of_callbacks_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shorter, count = re.subn(r"total_timesteps=[\d_]+", "total_timesteps=8192", CALLBACKS)
    assert count == 2
    exec(compile(shorter, "README.md", "exec"), {"tx": tx})
    assert "8192 [" in capsys.readouterr().out
    assert (tmp_path / "runs" / "cartpole" / "best.agent" / "manifest.json").exists()


def test_every_method_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE)) == set(ALGORITHMS) | {"mean-psi"}
