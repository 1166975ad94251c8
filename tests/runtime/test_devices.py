"""Seeds on several devices: the same learners as on one, whatever the engine."""

import json
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

ENGINES = ("native", "gymnasium")  # compiled together with the learner, and on the host
PROGRAM = "import json; from tests.runtime.test_devices import trained; print(json.dumps(trained()))"


def trained() -> dict[str, Any]:
    """For every engine, the number of devices of the learners, and the sum of each learner's parameters."""
    settings: dict[str, Any] = {"num_seeds": 4, "num_envs": 2, "horizon": 32, "total_timesteps": 192, "quiet": True}
    algorithm = tx.PPO(num_epochs=2, num_minibatches=4, hidden_sizes=(8,))
    results = {engine: tx.train(algorithm, f"{engine}:CartPole-v1", **settings) for engine in ENGINES}
    for result in results.values():
        result.agent(learner=3).predict(np.zeros(4), deterministic=True)  # its arrays are on one device
    parameters = {engine: result.state.learner.policy.parameters for engine, result in results.items()}
    return {
        engine: (len(vectors.sharding.device_set), np.asarray(vectors, np.float64).sum(axis=1).tolist())
        for engine, vectors in parameters.items()
    }


def test_seeds_on_two_devices_learn_the_same_as_on_one() -> None:
    """One process for all engines: it needs its own, since JAX counts devices only once."""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2"}
    command = [sys.executable, "-c", PROGRAM]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    on_two, on_one = json.loads(printed), trained()
    for engine in ENGINES:
        assert (on_two[engine][0], on_one[engine][0]) == (2, 1)
        assert on_two[engine][1] == pytest.approx(on_one[engine][1], rel=1e-4)


def test_the_compiler_knows_the_options_for_a_gpu() -> None:
    """One program knows all names, whatever it compiles for; an upgrade of JAX may take one away."""
    assert jax.jit(lambda x: x + 1, compiler_options=compiler_options("gpu"))(1) == 2


@pytest.mark.parametrize(
    "algorithm",
    [
        tx.PPO(num_epochs=2, num_minibatches=5, hidden_sizes=(8,)),
        pytest.param(
            tx.MCPO(num_epochs=2, num_minibatches=5, hidden_sizes=(8,), memory_size=3), marks=pytest.mark.slow
        ),
        pytest.param(tx.TRPO(hidden_sizes=(8,), num_minibatches=5, value_epochs=1), marks=pytest.mark.slow),
        pytest.param(tx.ACKTR(hidden_sizes=(8,)), marks=pytest.mark.slow),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_unrolled_loops_as_on_a_gpu_learn_the_same(algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops are unrolled, over steps of the environments and over minibatches, and PPO has both."""

    def parameters() -> np.ndarray:
        settings = {"num_envs": 2, "horizon": 35, "total_timesteps": 210, "quiet": True}
        return np.asarray(tx.train(algorithm, "native:CartPole-v1", **settings).state.learner.policy.parameters)

    expected = parameters()
    # Here `scan` may believe in a GPU; nothing else of a run may.
    on_gpu = SimpleNamespace(**vars(jax) | {"default_backend": lambda: "gpu"})
    monkeypatch.setattr("trustax.ops.transforms.jax", on_gpu)
    # 16 steps of the environments in an iteration of the loop, as on a GPU, would only take longer to compile.
    monkeypatch.setattr("trustax.runtime.collect.unroll_steps", lambda on_cpu, on_gpu: 6)
    # One step of Adam is 3e-4 long; two programs that round differently stay far closer.
    np.testing.assert_allclose(parameters(), expected, rtol=1e-4, atol=3e-5)


def test_a_platform_that_jax_cannot_use_is_reported_in_one_line() -> None:
    program = "import trustax as tx; tx.train('ppo', 'CartPole-v1', total_timesteps=8192)"
    environment = os.environ | {"JAX_PLATFORMS": "tpu"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "TrustaxError: JAX cannot use JAX_PLATFORMS=tpu" in ended.stderr.splitlines()[-1]
