"""EnvPool in both forms: the same streams, the right dtypes, and no crash with 64-bit environments."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from trustax.envs import make
from trustax.envs.envpool import EnvPoolCompiled, EnvPoolHost, Pool
from trustax.types import BoxActions, DiscreteActions

pytest.importorskip("envpool")


def compiled_stream(env_id: str, seeds: list[int], actions: np.ndarray) -> list[np.ndarray]:
    environment = EnvPoolCompiled(Pool(env_id, seeds, actions.shape[2]))
    state, first = environment.reset()
    _, timesteps = jax.jit(lambda *start: jax.lax.scan(environment.step, *start))(state, actions)
    return [np.asarray(first), *map(np.asarray, jax.tree.leaves(timesteps))]


def host_stream(env_id: str, seeds: list[int], actions: np.ndarray) -> list[np.ndarray]:
    environment = EnvPoolHost(Pool(env_id, seeds, actions.shape[2]))
    first = environment.reset()
    rows = [jax.tree.leaves(environment.step(action)) for action in actions]
    return [first, *map(np.stack, zip(*rows, strict=True))]


def assert_equal(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for ours, theirs in zip(one, other, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def check_streams(env_id: str, actions: np.ndarray) -> list[np.ndarray]:
    """Both forms return the same stream, and a seed returns the same stream alone and with another seed."""
    stream = host_stream(env_id, [3, 8], actions)
    assert_equal(compiled_stream(env_id, [3, 8], actions), stream)
    first, *rest = host_stream(env_id, [8], actions[:, 1:])
    assert_equal([stream[0][1:], *(leaf[:, 1:] for leaf in stream[1:])], [first, *rest])
    return stream


def test_a_pool_has_a_thread_for_each_core_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trustax.envs.envpool.available_cores", lambda: [0, 1, 2])
    assert Pool("CartPole-v1", [0], 4).raw.spec.config.num_threads == 3
    assert Pool("CartPole-v1", [0], 2).raw.spec.config.num_threads == 2


def test_lunar_lander_is_the_same_in_both_forms() -> None:
    actions = np.random.default_rng(0).integers(0, 4, (250, 2, 2)).astype(np.int32)
    observation, *_, terminated, _ = check_streams("LunarLander-v3", actions)
    assert observation.shape == (2, 2, 8)
    assert terminated.any()
    assert EnvPoolHost(Pool("LunarLander-v3", [0], 1)).spec.actions == DiscreteActions(4)


MUJOCO = """
import numpy as np
from tests.envs.test_envpool import check_streams
actions = np.random.default_rng(0).uniform(-1, 1, (100, 2, 2, 6)).astype(np.float32)
first, observation, reward, *_ = check_streams("HalfCheetah-v5", actions)
assert observation.shape == (100, 2, 2, 17) and observation.dtype == reward.dtype == np.float32
assert np.isfinite(observation).all() and observation.std() > 0.1
"""


def test_a_64_bit_environment_is_the_same_in_both_forms() -> None:
    # In a separate process, because a fault here aborts the process.
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", MUJOCO]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr


def test_images_stay_uint8() -> None:
    actions = np.zeros((3, 2, 1), np.int32)
    first, observation, reward, *_ = check_streams("Breakout-v5", actions)
    assert first.shape == (2, 1, 4, 84, 84)
    assert first.dtype == observation.dtype == np.uint8
    assert reward.dtype == np.float32
    assert EnvPoolHost(Pool("Breakout-v5", [0], 1)).spec.is_image


def test_the_compiled_form_cannot_be_resumed() -> None:
    environment = make("envpool:Pendulum-v1", [0], 2)
    assert isinstance(environment, EnvPoolCompiled)
    assert not environment.resumable
    assert environment.spec.actions == BoxActions((-2.0,), (2.0,))


def test_with_a_gpu_images_are_stepped_from_python(monkeypatch: Any) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert isinstance(make("envpool:Breakout-v5", [0], 1), EnvPoolHost)
    assert isinstance(make("envpool:Pendulum-v1", [0], 1), EnvPoolCompiled)


def test_dictionaries_and_discrete_observations_become_vectors() -> None:
    actions = np.random.default_rng(0).integers(0, 4, (50, 2, 2)).astype(np.int32)
    for name, size in (("FrozenLake-v1", 16), ("Game2048-v1", 20)):
        first, observation, *_ = check_streams(name, actions)
        assert first.shape == (2, 2, size)
        assert observation.dtype == np.float32
        assert observation.std(axis=0).any()
    one_hot = check_streams("FrozenLake-v1", actions)[1]
    np.testing.assert_array_equal(one_hot.sum(axis=-1), 1)
