"""Exported policies choose the same actions as the agent, in JAX without Trustax and in onnxruntime."""

import json
import runpy
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest

import trustax as tx
from trustax.networks import Architecture, Policy
from trustax.ops.observations import Part
from trustax.ops.running_statistics import RunningStatistics
from trustax.storage import onnx
from trustax.storage.export import inputs_of

COUNT = 1_000
BOX = tx.BoxActions((-0.3, -2.0, -np.inf, -0.1), (0.3, 2.0, np.inf, 0.2), box_shape=(2, 2))
ROOMS = (
    Part(("goal", "xy"), (2, 2)),
    Part(("room",), (), counts=(3,), starts=(1,)),
    Part(("keys",), (2,), counts=(2, 3), starts=(0, -1)),
)
AGENTS: dict[str, tuple[tx.EnvSpec, dict[str, Any]]] = {
    "discrete": (tx.EnvSpec((4,), tx.DiscreteActions(3, start=5)), {"activation": "silu"}),
    "box": (tx.EnvSpec((3, 2), BOX), {"layer_norm": True, "activation": "gelu"}),
    "multi-discrete": (
        tx.EnvSpec((4,), tx.MultiDiscreteActions((2, 3, 2, 2), (0, 1, 0, -1), (2, 2))),
        {"shared_torso": True, "activation": "elu"},
    ),
    "dictionaries": (tx.EnvSpec((12,), tx.BoxActions((-1.0,), (1.0,)), parts=ROOMS), {"activation": "relu"}),
    "nature": (tx.EnvSpec((36, 36, 1), tx.BoxActions((-1.0,), (1.0,)), "uint8"), {}),
    "impala": (tx.EnvSpec((3, 9, 12), tx.BoxActions((-1.0,), (1.0,)), "uint8"), {"network": "impala"}),
}


@lru_cache
def agent_of(name: str) -> tx.Agent:
    """An agent with random weights and, unless it sees images, with statistics of its observations."""
    spec, settings = AGENTS[name]
    rng = np.random.default_rng(1)
    policy = policy_of(Architecture(spec, **settings), rng)
    shape = spec.observation_shape
    mean, variance = rng.normal(size=shape), rng.uniform(0.001, 4, shape)
    statistics = RunningStatistics(*(jax.numpy.asarray(x, np.float32) for x in (mean, variance, 9)))
    return tx.Agent(policy, None if spec.is_image else statistics)


def policy_of(architecture: Architecture, rng: np.random.Generator) -> Policy:
    scale = 0.05 if architecture.spec.is_image else 0.3  # saturates no network
    shapes = jax.eval_shape(architecture.init, jax.random.key(0))
    return jax.tree.map(lambda x: jax.numpy.asarray(rng.normal(scale=scale, size=x.shape), np.float32), shapes)


def random_inputs(agent: tx.Agent, deterministic: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    inputs = {}
    for entry in inputs_of(agent.policy, deterministic):
        shape = (COUNT, *entry.shape)
        if entry.dtype == "float32":
            inputs[entry.name] = rng.normal(scale=2, size=shape).astype(np.float32)
        elif entry.dtype == "uint8":
            inputs[entry.name] = rng.integers(0, 256, shape, np.uint8)
        else:
            assert entry.part is not None
            starts, counts = (np.reshape(x, entry.shape) for x in (entry.part.starts, entry.part.counts))
            inputs[entry.name] = rng.integers(starts, starts + counts, shape)
    return inputs


def run(path: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    if path.suffix == ".onnx":
        return onnxruntime.InferenceSession(path).run(None, inputs)[0]
    return np.asarray(jax.export.deserialize(path.read_bytes()).call(**inputs))


def expected_actions(agent: tx.Agent, inputs: dict[str, np.ndarray]) -> np.ndarray:
    observations = inputs if agent.spec.parts is None else nested(inputs)
    return agent.predict(observations.get("observation", observations), deterministic=True)[0]


def nested(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"goal": {"xy": inputs["goal.xy"]}, "room": inputs["room"], "keys": inputs["keys"]}


def assert_same(agent: tx.Agent, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Equal within 1e-5; two choices whose logits are closer than that may change places."""
    assert ours.shape == theirs.shape
    if isinstance(agent.spec.actions, tx.BoxActions):
        assert np.ptp(ours, axis=0).min() > 0.01
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    else:
        assert len(np.unique(ours)) > 1
        assert np.mean(ours != theirs) <= 0.001


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        pytest.param(name, suffix, marks=pytest.mark.slow if (name, suffix) == ("impala", ".stablehlo") else ())
        for name in AGENTS
        for suffix in (".stablehlo", ".onnx")
    ],
)
def test_an_exported_policy_chooses_the_same_actions_as_the_agent(name: str, suffix: str, tmp_path: Path) -> None:
    agent, path = agent_of(name), tmp_path / f"policy{suffix}"
    agent.export(path)
    inputs = random_inputs(agent, deterministic=True)
    assert_same(agent, expected_actions(agent, inputs), run(path, inputs))


@pytest.mark.parametrize("name", ["discrete", "box", "multi-discrete"])
def test_sampled_actions_are_the_same_for_the_same_noise(name: str, tmp_path: Path) -> None:
    agent = agent_of(name)
    inputs = random_inputs(agent, deterministic=False)
    outcomes = []
    for path in (tmp_path / "policy.stablehlo", tmp_path / "policy.onnx"):
        agent.export(path, deterministic=False)
        outcomes.append(run(path, inputs))
    assert_same(agent, *outcomes)
    assert np.mean(expected_actions(agent, inputs) != outcomes[0]) > 0.2


def test_a_stablehlo_file_runs_without_trustax(tmp_path: Path) -> None:
    agent = agent_of("dictionaries")
    agent.export(tmp_path / "policy.stablehlo")
    inputs = {name: x[:1] for name, x in random_inputs(agent, deterministic=True).items()}
    script = """
import json, sys
sys.modules["trustax"] = None  # importing it raises an error
import jax.export, numpy
policy = jax.export.deserialize(open(sys.argv[1], "rb").read())
inputs = {name: numpy.array(x, policy.in_avals[i].dtype) for i, (name, x) in enumerate(json.loads(sys.argv[2]).items())}
print(policy.call(**inputs).tolist(), policy.platforms)
"""
    text = json.dumps({name: inputs[name].tolist() for name in sorted(inputs)})
    arguments = [sys.executable, "-c", script, str(tmp_path / "policy.stablehlo"), text]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=300).stdout
    assert "('cpu', 'cuda', 'tpu')" in printed
    ours = expected_actions(agent, inputs)
    np.testing.assert_allclose(json.loads(printed.partition(" (")[0]), ours, rtol=1e-5, atol=1e-5)


def test_a_control_loop_needs_only_onnxruntime_and_gymnasium(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Path(__file__).parents[2] / "examples" / "control_loop_onnx.py"
    spec = tx.EnvSpec((3,), tx.BoxActions((-2.0,), (2.0,)))
    tx.Agent(policy_of(Architecture(spec), np.random.default_rng(0))).export(tmp_path / "policy.onnx")
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path / "policy.onnx"), "Pendulum-v1"])
    runpy.run_path(str(example))
    assert capsys.readouterr().out.startswith("return -")
    assert not {"jax", "trustax"} & set(example.read_text().partition("import sys")[2].split())


@pytest.mark.parametrize("key", ["gather_2", "constant_0"])
def test_keys_of_an_observation_may_have_the_names_of_nodes(key: str, tmp_path: Path) -> None:
    parts = (Part((f"_{key}",), (2,)), Part((key,), (), counts=(3,), starts=(1,)))
    spec = tx.EnvSpec((5,), tx.BoxActions((-9.0,), (9.0,)), parts=parts)
    agent = tx.Agent(policy_of(Architecture(spec), np.random.default_rng(0)))
    agent.export(tmp_path / "policy.onnx")
    inputs = random_inputs(agent, deterministic=True)
    ours = agent.predict(inputs, deterministic=True)[0]
    assert_same(agent, ours, run(tmp_path / "policy.onnx", inputs))


def test_unsupported_exports_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of("discrete")
    with pytest.raises(tx.TrustaxError, match=r"ends in \.stablehlo or \.onnx, not to 'policy.pt'"):
        agent.export(tmp_path / "policy.pt")
    monkeypatch.setattr(onnx, "SharedActorCritic", onnx.VectorActorCritic)
    with pytest.raises(tx.TrustaxError, match=r"cannot be exported to ONNX.* \.stablehlo works"):
        agent_of("multi-discrete").export(tmp_path / "policy.onnx")
    spec = tx.EnvSpec((2,), tx.BoxActions((-1.0,), (1.0,)), parts=(Part(("noise",), (2,)),))
    agent = tx.Agent(policy_of(Architecture(spec), np.random.default_rng(0)))
    with pytest.raises(tx.TrustaxError, match="two inputs of the policy have the name 'noise'"):
        agent.export(tmp_path / "policy.onnx", deterministic=False)
    spec = tx.EnvSpec((2,), tx.BoxActions((-1.0,), (1.0,)), parts=(Part(("action",), (2,)),))
    agent = tx.Agent(policy_of(Architecture(spec), np.random.default_rng(0)))
    with pytest.raises(tx.TrustaxError, match="an ONNX file calls its output 'action', so no observation may have"):
        agent.export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
