"""What the documentation shows is what happens: its table of tasks, its examples, its terminal session, its commands.

`python -m tests.test_docs` prints the table.
"""

import random
import re
import shlex
import sys
from pathlib import Path

import gymnasium
import pytest

from trustax.cli import commands
from trustax.cli.main import main
from trustax.cli.sweep import Sweep
from trustax.cli.training import Resume, Train
from trustax.cli.tune import Tune
from trustax.cli.zoo import Zoo
from trustax.envs import ENGINES, engine_of
from trustax.paper.commands import Reproduce
from trustax.paper.report.command import Report
from trustax.paper.tasks import TASKS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
PAGES = [
    path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    if "_build" not in path.parts
]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SMALL = "total_timesteps=256, num_envs=2, horizon=64"


def table_of_tasks() -> str:
    settings = "epochs, minibatches, learning rate, c₁, c₂, rewards"
    columns = f"task, environment, engine, environments × horizon, steps, {settings}".split(", ")
    rows = []
    for name, task in TASKS.items():
        size = f"{task.num_envs} × {task.horizon}"
        numbers = (task.num_epochs, task.num_minibatches, task.learning_rate, task.value_cost, task.entropy_cost)
        rewards = "normalized" if task.normalize_rewards else "their sign"
        row = [f"`{name}`", task.env_id, engine_of(task.env_id), size, f"{task.total_timesteps:,}"]
        rows.append([*row, *(f"{value:g}" for value in numbers), rewards])
    header, *body = (f"| {' | '.join(row)} |" for row in [columns, *rows])
    return "\n".join([header, "|" + "---|" * len(columns), *body])


def example_with(words: str) -> str:
    (example,) = (example for example in EXAMPLES if words in example)
    return example


def test_the_table_is_that_of_the_tasks() -> None:
    assert table_of_tasks() in PAGE, f"docs/environments.md should have\n{table_of_tasks()}"


def test_every_engine_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([a-z]+):` \|", PAGE, re.MULTILINE)) == set(ENGINES)


@pytest.mark.parametrize(
    ("words", "printed"),
    [("task(", "["), ("slippery", ""), ("observe", "over 20 episodes"), ("GymnaxEnv", "")],
)
def test_an_example_runs(words: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = example_with(words)
    shorter, count = re.subn(r"total_timesteps=[\d_]+(, num_envs=\d+)?(, horizon=\d+)?", SMALL, example)
    if words == "task(":
        shorter, count = re.subn(r"num_seeds=3", f"num_seeds=3, {SMALL}", example)
    assert count == 1
    exec(compile(shorter, "environments.md", "exec"), {})
    assert printed in capsys.readouterr().out


def test_the_session_matches_the_output_of_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, said = re.findall(r"```\n\$ PYTHONPATH=\. trustax (check .*?)\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "elevator.py").write_text(example_with("import random"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    random.seed(0)  # which the example forgets
    try:
        with pytest.raises(SystemExit) as leaving:
            main(command.split())
    finally:
        gymnasium.registry.pop("Elevator-v0", None)
        sys.modules.pop("elevator", None)
    assert leaving.value.code == 1
    assert without_numbers(capsys.readouterr().out) == without_numbers(said)


def without_numbers(text: str) -> list[str]:
    """Lines of which the numbers are left out: how many episodes there are is not the same each time."""
    return [re.sub(r"\d+", "#", line.rstrip()) for line in text.strip().splitlines()]


COMMANDS = [
    re.sub(r"[^\s*]*…", "run", command)
    for page in PAGES
    for block in re.split(r"^```.*$", page, flags=re.MULTILINE)[1::2]
    for command in re.findall(r"^(?:PYTHONPATH=\. )?trustax (.*)$", block, re.MULTILINE)
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_options_that_are_shown(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    kinds = [getattr(commands, kind) for kind in ("Evaluate", "Record", "Export", "Plot", "Check")]
    for kind in [*kinds, Train, Resume, Reproduce, Report, Zoo]:
        monkeypatch.setattr(kind, "__call__", lambda command: None)
    monkeypatch.setattr(Sweep, "run", lambda command, settings: None)
    monkeypatch.setattr(Tune, "run", Tune.tuning)
    with pytest.raises(SystemExit) as leaving:
        main(shlex.split(command, comments=True))
    assert leaving.value.code == 0


if __name__ == "__main__":
    print(table_of_tasks())
