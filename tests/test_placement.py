"""Seeds on several devices: the same learners as on one, whatever the engine."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import trustax as tx
from trustax.placement import COMPILER_OPTIONS

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


@pytest.mark.parametrize("platform", COMPILER_OPTIONS)
def test_the_compiler_knows_the_options_of_every_platform(platform: str) -> None:
    """One program knows all names, whatever it compiles for; an upgrade of JAX may take one away."""
    assert jax.jit(lambda x: x + 1, compiler_options=COMPILER_OPTIONS[platform])(1) == 2


@pytest.mark.parametrize("steps", [3, 4, 16])
def test_turns_of_several_steps_as_on_a_gpu_learn_the_same(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def parameters() -> np.ndarray:
        settings = {"num_envs": 2, "horizon": 32, "total_timesteps": 192, "quiet": True}
        algorithm = tx.MCPO(num_epochs=2, num_minibatches=4, hidden_sizes=(8,))
        return np.asarray(tx.train(algorithm, "native:CartPole-v1", **settings).state.learner.policy.parameters)

    expected = parameters()
    for module in ("minimize", "rollout"):
        monkeypatch.setattr(f"trustax.{module}.steps_in_a_turn", lambda on_cpu, on_gpu: steps)
    np.testing.assert_allclose(parameters(), expected, rtol=1e-4, atol=1e-6)
