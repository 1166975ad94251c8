"""Extensions: the programs of docs/extending.md, and a package of its own that only its entry points make known."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trustax.algorithms import ALGORITHMS
from trustax.envs import ENGINES
from trustax.networks import NETWORKS
from trustax.runtime.callbacks import CALLBACKS
from trustax.storage.loggers import LOGGERS

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SMALL = "total_timesteps=256, num_envs=2, horizon=64, quiet=True"
ENTRY_POINTS = "\n".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))


def pieces(program: str) -> tuple[str, str]:
    """A program of the page as its definitions, and as what it does with them."""
    definitions, registration, rest = program.partition("tx.register_")
    return definitions, registration + rest


@pytest.mark.parametrize(("number", "printed"), list(enumerate(["reverse-kl", "residual", "corridor:10", "1"])))
def test_a_program_of_the_page_runs(
    number: int, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for registry in (ALGORITHMS, NETWORKS, ENGINES, CALLBACKS, LOGGERS):
        monkeypatch.setattr(registry, "_entries", dict(registry))
    shorter, count = re.subn(r"total_timesteps=[\d_]+", SMALL, PROGRAMS[number])
    assert count == 1
    shorter = shorter.replace("tx.PPO(", "tx.PPO(num_minibatches=4, ").replace("KL(kl_", "KL(num_minibatches=4, kl_")
    exec(compile(shorter, "extending.md", "exec"), {"__name__": "extending"})
    assert capsys.readouterr().out == f"{printed}\n"


def install(folder: Path) -> None:
    """Install the definitions of the page as a package with the page's entry points, as pip would."""
    (folder / "my_package.py").write_text("\n".join(pieces(program)[0] for program in PROGRAMS))
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    text = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", ENTRY_POINTS).replace('"', "")
    (info / "entry_points.txt").write_text(text)


def trustax(folder: Path, *arguments: str) -> None:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "trustax.cli.main", *arguments]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_installed_package_trains_from_the_command_line_and_resumes(tmp_path: Path) -> None:
    install(tmp_path)
    run_dir = tmp_path / "run"
    settings = ["--num-envs", "2", "--horizon", "32", "--num-minibatches", "2", "--num-epochs", "1"]
    settings += ["--hidden-sizes", "8", "8", "--quiet"]
    options = ["--env-id", "corridor:10", "--network", "residual", "--total-timesteps", "128", *settings]
    hooks = ["--callbacks", "stop-after:iterations=1", "--loggers", "returns-file"]
    trustax(tmp_path, "train", "reverse-kl", "--run-dir", str(run_dir), *options, *hooks)
    trustax(tmp_path, "resume", str(run_dir), "--quiet", "--loggers", "returns-file")
    run = json.loads((run_dir / "run.json").read_text())
    assert (run["algorithm"]["name"], run["algorithm"]["network"], run["env_id"]) == (
        "reverse-kl",
        "residual",
        "corridor:10",
    )
    assert len((run_dir / "metrics.jsonl").read_text().splitlines()) == 2
    assert len((run_dir / "returns.txt").read_text().splitlines()) == 2
