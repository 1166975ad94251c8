"""The choice of the engine, and the errors for bad input."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tests.envs.test_gymnasium import Scripted
from trustax.envs import ENGINES, HostAdapter, JaxEnv, VectorizedJaxEnv, engine_of, make, register_engine
from trustax.envs.engines import bare_id, imports_module, observes_images, resumes_exactly
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.jax.cartpole import CartPole
from trustax.envs.registry import require_engine
from trustax.errors import TrustaxError


@pytest.fixture
def without_envpool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)


@pytest.fixture
def registered() -> Any:
    gymnasium.register("TrustaxScripted-v0", Scripted)
    yield "TrustaxScripted-v0"
    del gymnasium.registry["TrustaxScripted-v0"]


def error_message(env: Any, *arguments: Any) -> str:
    with pytest.raises(TrustaxError) as error:
        make(env, *(arguments or ([0], 1)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_id_without_prefix_uses_the_fastest_engine(registered: str) -> None:
    pytest.importorskip("envpool")
    assert engine_of("Pendulum-v1") == "native"
    assert engine_of("LunarLander-v3") == "envpool"
    assert engine_of("MountainCarContinuous-v0") == "envpool"
    assert engine_of(registered) == "gymnasium"
    assert engine_of("gymnasium:CartPole-v1") == "gymnasium"


def test_without_envpool_gymnasium_is_used(without_envpool: None) -> None:
    assert engine_of("Pendulum-v1") == "native"
    assert engine_of("Acrobot-v1") == "gymnasium"
    assert 'pip install "trustax[envpool]"' in error_message("envpool:Pendulum-v1")
    assert 'pip install "trustax[envpool]"' in error_message("HalfCheeta-v5")


def test_environments_that_are_not_ids() -> None:
    assert engine_of(Scripted) == "gymnasium"
    assert isinstance(make(Scripted, [0], 2), GymnasiumHost)
    definition = CartPole(time_limit=5)
    assert isinstance(definition, JaxEnv)
    assert engine_of(definition) == "native"
    assert isinstance(make(definition, [0], 2), VectorizedJaxEnv)


def test_host_forms_on_demand(registered: str) -> None:
    assert isinstance(make("Pendulum-v1", [0], 1), VectorizedJaxEnv)
    assert isinstance(make("Pendulum-v1", [0], 1, compiled=False), HostAdapter)
    for compiled in (True, False):
        environment = make(registered, [0], 1, compiled)
        assert isinstance(environment, GymnasiumHost)
        environment.close()


def test_a_module_may_register_the_environment() -> None:
    name = "gymnasium:gymnasium.envs:MountainCar-v0"
    assert engine_of(name) == "gymnasium"
    assert make(name, [0], 1).spec.observation_shape == (2,)
    assert "no_such_module" in error_message("gymnasium:no_such_module:Some-v0")


def test_a_module_needs_no_prefix_and_is_not_imported_to_find_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_of_envs.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert engine_of("module_of_envs:Mine-v0") == engine_of("module_of_envs.part:Mine-v0") == "gymnasium"
    assert imports_module("module_of_envs:Mine-v0")
    assert make("gymnasium.envs:MountainCar-v0", [0], 1).spec.observation_shape == (2,)


class Mine:
    """An engine with one environment, known by any number: the length of its episodes."""

    name = "mine"
    resumable = True

    def ids(self) -> list[str]:
        return ["5"]

    def has(self, env_id: str) -> bool:
        return env_id.isdigit()

    def make(self, env_id: str, seeds: Sequence[int], num_envs: int, compiled: bool) -> VectorizedJaxEnv:
        return VectorizedJaxEnv(CartPole(time_limit=int(env_id)), seeds, num_envs)


def test_a_registered_engine_runs_what_has_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINES, "_entries", dict(ENGINES))
    register_engine("mine", Mine())
    assert engine_of("mine:7") == "mine"
    assert resumes_exactly("mine:7")
    assert bare_id("mine:7") == "7"
    assert not imports_module("mine:7")
    assert isinstance(make("mine:7", [0], 2), VectorizedJaxEnv)
    assert isinstance(make("mine:7", [0], 2, compiled=False), HostAdapter)
    assert error_message("mine:seven") == "mine has no environment 'seven'"
    with pytest.raises(TrustaxError, match="'native' is built in"):
        register_engine("native", Mine())
    with pytest.raises(TrustaxError, match="the engine 'bad' has no name, resumable, ids, has, make"):
        require_engine("bad", object())


def test_errors_about_unknown_ids_suggest_similar_ones() -> None:
    assert error_message("Pendulm-v1").startswith("there is no environment 'Pendulm-v1'; did you mean Pendulum-v1")
    assert "did you mean CartPole-v1" in error_message("native:cartpole-v1")
    assert error_message("native:Acrobot-v1").endswith("gymnasium can run it")
    assert error_message("gymnasium:xyzzy") == "gymnasium has no environment 'xyzzy'"


@pytest.mark.parametrize("env", ["brax:Ant-v5", ":Pendulum-v1", "native:", "native :Pendulum-v1"])
def test_malformed_prefixes(env: str) -> None:
    assert "the engines are native, envpool, gymnasium" in error_message(env)


def test_a_missing_dependency_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for module in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, module)
    assert 'pip install "trustax[box2d]"' in error_message("gymnasium:LunarLander-v3")


def test_arguments_are_checked() -> None:
    assert "at least one seed" in error_message("Pendulum-v1", [], 1)
    assert "at least one seed" in error_message("Pendulum-v1", [0], 0)
    assert "seeds must be between 0 and" in error_message("Pendulum-v1", [-1], 1)


@pytest.mark.parametrize(
    ("env", "package", "extra"),
    [
        ("gymnasium:MiniGrid-Empty-5x5-v0", "minigrid", "trustax[minigrid]"),
        ("gymnasium:ALE/Pong-v5", "ale_py", "trustax[atari]"),
        ("gymnasium:Ant-v5", "mujoco", "trustax[mujoco]"),
    ],
)
def test_a_missing_package_that_would_register_the_id_is_named(
    env: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith(("gymnasium.envs.mujoco", package))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    assert error_message(env).endswith(f'cannot be made: a dependency is not installed: pip install "{extra}"')


def test_an_environment_that_moved_is_not_a_missing_package() -> None:
    with pytest.warns(DeprecationWarning, match="HalfCheetah-v3 is out of date"):
        assert "moved to the gymnasium-robotics project" in error_message("gymnasium:HalfCheetah-v3")


def test_the_error_about_a_missing_module_suggests_pythonpath() -> None:
    assert error_message("gymnasium:no_such_module:Some-v0").endswith(
        "To import a module from this folder, set PYTHONPATH=."
    )


def test_images_are_known_before_the_environment_is_made() -> None:
    pytest.importorskip("envpool")
    ids = ["CartPole-v1", "LunarLander-v3", "MiniGrid-DoorKey-6x6-v0", "CarRacing-v3", "Breakout-v5", "ALE/Breakout-v5"]
    assert [observes_images(env_id) for env_id in ids] == [False, False, False, True, True, True]
    assert not observes_images(CartPole())
    assert not observes_images(Scripted)  # it must be made first
