"""Registries: names of built-in, registered and installed objects, and what a wrong name is told."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trustax as tx
from trustax.algorithms import ALGORITHMS, PPO
from trustax.run import from_json
from trustax.settings import Registry
from trustax.storage.loggers import LOGGERS


def install(folder: Path, entry_points: str, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Put a distribution with these entry points and modules on the path."""
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)


def numbers() -> Registry[int]:
    return Registry("number", "trustax.test_numbers", {"one": 1})


def test_entry_points_are_found_by_name_and_loaded_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[trustax.test_numbers]\ntwo = plugin_two:TWO\none = plugin_two:TWO\n"
    install(tmp_path, points, monkeypatch, plugin_two="TWO = 2")
    registry = numbers()
    assert registry["one"] == 1, "a built-in name is not replaced"
    assert "plugin_two" not in sys.modules
    assert registry.find("two") == 2
    assert dict(registry) == {"one": 1, "two": 2}
    assert registry.name_of(2) == "two"
    del sys.modules["plugin_two"]


def test_a_broken_package_is_named_and_others_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "[trustax.test_numbers]\ntwo = no_such_module:TWO\n", monkeypatch)
    registry = numbers()
    with pytest.raises(tx.TrustaxError, match="the number 'two' of plugin cannot be loaded: ModuleNotFoundError"):
        registry.find("two")
    with pytest.warns(UserWarning, match="the number 'two' of plugin cannot be loaded"):
        assert list(registry) == ["one"]


def test_an_unknown_name_gets_similar_suggestions() -> None:
    with pytest.raises(tx.TrustaxError, match="there is no algorithm 'mcpoo'; did you mean mcpo"):
        ALGORITHMS.find("mcpoo")
    with pytest.raises(tx.TrustaxError, match=r"there is no algorithm 'os\.system'"):
        from_json({"algorithm": {"name": "os.system"}, "env_id": "CartPole-v1"})
    assert ALGORITHMS.get("mcpoo") is None
    assert list(LOGGERS) == ["tensorboard", "wandb", "mlflow"]


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("ppo", PPO, "'ppo' is built in; choose another name"),
        ("my method", PPO, "must be a word without spaces and colons, not 'my method'"),
        ("mine", object, "an algorithm is a dataclass with discount, init and update"),
    ],
)
def test_an_object_that_cannot_be_registered_is_refused(name: str, entry: Any, message: str) -> None:
    with pytest.raises(tx.TrustaxError, match=message):
        tx.register_algorithm(name, entry)
    assert "mine" not in ALGORITHMS


def test_importing_trustax_reads_no_entry_points() -> None:
    program = "import importlib.metadata as m; m.entry_points = None; import trustax; print('imported')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "imported\n"
