"""The README's own example, and what it points to: the example of callbacks and the table of methods."""

import re
from pathlib import Path

import pytest

from trustax.algorithms import ALGORITHMS

ROOT = Path(__file__).parent.parent


def examples_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


(EXAMPLE,) = examples_of("README.md")
CALLBACKS, *_ = examples_of("docs/howto/callbacks-and-loggers.md")


@pytest.mark.parametrize(
    "steps",
    ["1024, num_envs=2, horizon=256", pytest.param("1_000_000", marks=pytest.mark.slow)],
    ids=["shortened", "as-printed"],
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
    exec(compile(shorter, "callbacks-and-loggers.md", "exec"), {})
    assert "8192 [" in capsys.readouterr().out
    assert (tmp_path / "runs" / "cartpole" / "best.agent" / "manifest.json").exists()


def test_every_method_is_in_the_table() -> None:
    page = (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(ALGORITHMS) | {"mean-psi"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
