"""Seeds on several devices: the same learners as on one, whatever the engine."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import trustax as tx
from trustax.runtime.compilation import compiler_options

TRAIN = """
import sys
import jax, numpy as np, trustax as tx
assert len(jax.devices()) == 2
result = tx.train(
    tx.PPO(num_epochs=2, num_minibatches=4, hidden_sizes=(8,)), sys.argv[1],
    num_seeds=4, num_envs=2, horizon=32, total_timesteps=192, quiet=True,
)
print(len(result.state.learner.policy.parameters.sharding.device_set))
print(np.asarray(result.state.learner.policy.parameters, np.float64).sum(axis=1).tolist())
"""


def trained_on_two_devices(env_id: str) -> tuple[int, list[float]]:
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2"}
    command = [sys.executable, "-c", TRAIN, env_id]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    return int(out[0]), [float(number) for number in out[1].strip("[]").split(",")]


@pytest.mark.parametrize("env_id", ["native:CartPole-v1", "envpool:CartPole-v1", "gymnasium:CartPole-v1"])
def test_seeds_on_two_devices_learn_what_they_learn_on_one(env_id: str) -> None:
    result = tx.train(
        tx.PPO(num_epochs=2, num_minibatches=4, hidden_sizes=(8,)),
        env_id,
        num_seeds=4,
        num_envs=2,
        horizon=32,
        total_timesteps=192,
        quiet=True,
    )
    num_devices, sums = trained_on_two_devices(env_id)
    assert num_devices == 2
    assert sums == pytest.approx(result.state.learner.policy.parameters.sum(axis=1).tolist(), rel=1e-4)


def test_the_compiler_knows_the_options_for_a_gpu() -> None:
    """One program knows all names, whatever it compiles for; an upgrade of JAX may take one away."""
    assert jax.jit(lambda x: x + 1, compiler_options=compiler_options("gpu"))(1) == 2


@pytest.mark.parametrize("algorithm", [tx.MCPO(num_epochs=2, num_minibatches=5), tx.TRPO(), tx.ACKTR()])
def test_turns_of_several_steps_as_on_a_gpu_learn_the_same(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def parameters() -> np.ndarray:
        settings = {"num_envs": 2, "horizon": 35, "total_timesteps": 210, "quiet": True}
        return np.asarray(tx.train(algorithm, "native:CartPole-v1", **settings).state.learner.policy.parameters)

    expected = parameters()
    # Here `scan` may believe in a GPU; nothing else of a run may.
    on_gpu = SimpleNamespace(default_backend=lambda: "gpu", lax=jax.lax, tree=jax.tree, vmap=jax.vmap)
    monkeypatch.setattr("trustax.ops.transforms.jax", on_gpu)
    # One step of Adam is 3e-4 long; two programs that round differently stay far closer.
    np.testing.assert_allclose(parameters(), expected, rtol=1e-4, atol=3e-5)
