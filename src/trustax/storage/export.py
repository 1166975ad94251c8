"""Export a policy to one file that runs without Trustax: StableHLO for JAX, or ONNX.

The file contains the whole way from an observation to an action: flattening and normalizing the observation, the
network, the choice of the action, and the bounds of the action space. Its inputs have names and a batch axis of any
size: `observation`, or one input for each array of a structured observation, and `noise` if actions are sampled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from trustax.errors import TrustaxError
from trustax.networks import Policy
from trustax.ops.observations import Part
from trustax.ops.running_statistics import RunningStatistics
from trustax.storage.atomic import write_bytes_atomic
from trustax.types import EnvSpec

PLATFORMS = ("cpu", "cuda", "tpu")
NOISE = "noise"
STABLEHLO, ONNX = ".stablehlo", ".onnx"


@dataclass(frozen=True)
class Input:
    """One input of an exported policy, without its batch axis."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """float32, uint8 or integer; integers are int32 in StableHLO and int64 in ONNX, the defaults of JAX and NumPy"""
    part: Part | None = None
    """The part of a structured observation; None for an array observation and for noise."""


def export(policy: Policy, statistics: RunningStatistics | None, path: Path, deterministic: bool) -> None:
    """Write a policy to a file; the ending of its name chooses the format."""
    if path.suffix not in (STABLEHLO, ONNX):
        raise TrustaxError(f"a policy is exported to a file that ends in .stablehlo or .onnx, not to {path.name!r}")
    if path.suffix == ONNX:
        try:
            from trustax.storage.onnx import to_onnx
        except ImportError:
            raise TrustaxError('onnx is not installed: pip install "trustax[export]"') from None
        content = to_onnx(policy, statistics, deterministic)
    else:
        content = to_stablehlo(policy, statistics, deterministic)
    write_bytes_atomic(path, content)


def to_stablehlo(policy: Policy, statistics: RunningStatistics | None, deterministic: bool) -> bytes:
    """The policy as `jax.export` serializes it; `jax.export.deserialize(content).call(**inputs)` runs it."""
    (batch,) = jax.export.symbolic_shape("batch")
    arguments = {
        entry.name: jax.ShapeDtypeStruct((batch, *entry.shape), jnp.int32 if entry.dtype == "integer" else entry.dtype)
        for entry in inputs_of(policy, deterministic)
    }
    function = _function(policy, statistics, deterministic)
    exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(**arguments)
    return bytes(exported.serialize())


def inputs_of(policy: Policy, deterministic: bool) -> list[Input]:
    """The inputs of the exported policy: its observations and, unless it is deterministic, its noise."""
    inputs = [*_observations(policy.architecture.spec)]
    if not deterministic:
        inputs.append(Input(NOISE, _noise_shape(policy), "float32"))
    names = [entry.name for entry in inputs]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise TrustaxError(f"two inputs of the policy have the name {min(repeated)!r}; rename a key of the observation")
    return inputs


def _observations(spec: EnvSpec) -> list[Input]:
    if spec.parts is None:
        return [Input("observation", spec.observation_shape, spec.observation_dtype)]
    return [
        Input(
            ".".join(map(str, part.path)) or "observation",
            part.shape,
            "float32" if part.counts is None else "integer",
            part,
        )
        for part in spec.parts
    ]


def _noise_shape(policy: Policy) -> tuple[int, ...]:
    spec = policy.architecture.spec
    seen = jax.ShapeDtypeStruct(spec.observation_shape, spec.observation_dtype)
    return jax.eval_shape(lambda x: policy(x)[0].noise(jax.random.key(0)), seen).shape


def _flattened(spec: EnvSpec, inputs: dict[str, Any]) -> Any:
    """One observation, from its inputs."""
    if spec.parts is None:
        return inputs["observation"]
    named = zip(_observations(spec), spec.parts, strict=True)
    return jnp.concatenate([part.flatten(inputs[entry.name]) for entry, part in named])


def _function(policy: Policy, statistics: RunningStatistics | None, deterministic: bool) -> Callable[..., Any]:
    """The policy as a function of its inputs, by name, each with a batch axis."""
    spec = policy.architecture.spec
    network = policy.architecture.unflatten(policy.parameters)  # the critic's numbers are not part of the file

    def choose_one(inputs: dict[str, Any]) -> Any:
        observation = _flattened(spec, inputs)
        if statistics is not None:
            observation = statistics.standardize(observation[None])[0]
        distribution, _ = network(observation)
        action = distribution.mode() if deterministic else distribution.choose(inputs[NOISE])
        return spec.actions.for_environment(action)

    def choose(**inputs: Any) -> Any:
        return jax.vmap(choose_one)(inputs)

    return choose
