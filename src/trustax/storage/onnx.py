"""Write a policy as an ONNX graph, layer by layer.

The graph is written by hand, since the networks consist of a few layers: this needs the package `onnx` alone, takes
milliseconds, and each layer is one node that runtimes optimize. Networks of your own can be exported to StableHLO.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx

from trustax.errors import TrustaxError
from trustax.networks import (
    Conv,
    Dense,
    ImageActorCritic,
    Policy,
    SharedActorCritic,
    VectorActorCritic,
)
from trustax.networks.impala import Stage
from trustax.networks.mlp import Hidden
from trustax.ops.running_statistics import LIMIT, RunningStatistics
from trustax.storage.export import NOISE, Input, inputs_of
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

ACTION = "action"
"""The name of the output."""
OPSET = 20
"""The first version with Gelu; onnxruntime has it since 1.17."""
IR_VERSION = 9
"""The file format that belongs to this opset, so that older runtimes read the file."""


class Graph:
    """Nodes and constants in the order in which they are added. Tensors are known by names that no input has."""

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        name = self._free(f"constant_{len(self.constants)}")
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the name of this output."""
        output = output or self._free(f"{kind.lower()}_{len(self.nodes)}")
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _free(self, name: str) -> str:
        while name in self._inputs:
            name = f"_{name}"
        return name

    def reshape(self, x: str, *shape: int, output: str | None = None) -> str:
        """Reshape everything but the batch axis."""
        return self.add("Reshape", x, self.constant(np.array([-1, *shape], np.int64)), output=output)


def to_onnx(policy: Policy, statistics: RunningStatistics | None, deterministic: bool) -> bytes:
    """The policy as the content of an .onnx file, with one output, `action`."""
    spec = policy.architecture.spec
    inputs = inputs_of(policy, deterministic)
    names = [entry.name for entry in inputs]
    if ACTION in names:
        raise TrustaxError(
            f"an ONNX file calls its output {ACTION!r}, so no observation may have this key; rename it, or export to "
            "a file that ends in .stablehlo"
        )
    graph = Graph(names)
    x = _normalized(graph, _observation(graph, inputs, spec), statistics)
    network = policy.architecture.unflatten(policy.parameters)
    outputs = _outputs(graph, network, x, policy.architecture.network)
    _action(graph, spec, outputs, network.log_std, None if deterministic else NOISE)
    kind = onnx.TensorProto.FLOAT if isinstance(spec.actions, BoxActions) else onnx.TensorProto.INT64
    action = onnx.helper.make_tensor_value_info(ACTION, kind, ["batch", *spec.actions.environment_shape])
    described = onnx.helper.make_graph(graph.nodes, "policy", [_declared(entry) for entry in inputs], [action])
    described.initializer.extend(graph.constants)
    model = onnx.helper.make_model(
        described,
        producer_name="trustax",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _declared(entry: Input) -> Any:
    kinds = {
        "float32": onnx.TensorProto.FLOAT,
        "uint8": onnx.TensorProto.UINT8,
        "integer": onnx.TensorProto.INT64,
    }
    return onnx.helper.make_tensor_value_info(entry.name, kinds[entry.dtype], ["batch", *entry.shape])


def _observation(graph: Graph, inputs: Sequence[Input], spec: EnvSpec) -> str:
    """The observation as floats; a structured one as one vector, as `trustax.ops.observations.flatten` makes it."""
    if spec.parts is None:
        return graph.add("Cast", "observation", to=onnx.TensorProto.FLOAT)
    vectors = []
    for entry in inputs:
        if entry.part is None:  # the noise
            continue
        x, counts = graph.reshape(entry.name, int(np.prod(entry.shape))), entry.part.counts
        if counts is not None:
            starts = zip(entry.part.starts, counts, strict=True)
            choices = np.concatenate([start + np.arange(count) for start, count in starts])
            repeated = graph.add("Gather", x, graph.constant(np.repeat(np.arange(len(counts)), counts)), axis=1)
            is_chosen = graph.add("Equal", repeated, graph.constant(choices.astype(np.int64)))
            x = graph.add("Cast", is_chosen, to=onnx.TensorProto.FLOAT)
        vectors.append(x)
    return graph.add("Concat", *vectors, axis=1)


def _normalized(graph: Graph, x: str, statistics: RunningStatistics | None) -> str:
    if statistics is None:
        return x
    deviation = np.sqrt(np.asarray(statistics.variance) + np.float32(1e-8))
    scaled = graph.add("Div", graph.add("Sub", x, graph.constant(statistics.mean)), graph.constant(deviation))
    return graph.add("Clip", scaled, graph.constant(np.float32(-LIMIT)), graph.constant(np.float32(LIMIT)))


def _outputs(graph: Graph, network: Any, x: str, name: str) -> str:
    """The outputs of the actor: logits, or means of a Gaussian."""
    match network:
        case VectorActorCritic(actor=(*hidden, head)) | SharedActorCritic(torso=hidden, actor=head):
            x = graph.add("Flatten", x)
            for layer in hidden:
                x = _activation(graph, network.activation, _dense(graph, layer, x))
            return _dense(graph, head, x)
        case ImageActorCritic(torso=(Conv(), *_)):
            x = _image(graph, x, network.channels_last)
            for conv in network.torso:
                x = graph.add("Relu", _conv(graph, conv, x))
        case ImageActorCritic(torso=(Stage(), *_)):
            x = _image(graph, x, network.channels_last)
            for stage in network.torso:
                x = _stage(graph, stage, x)
            x = graph.add("Relu", x)
        case _:
            raise TrustaxError(
                f"the network {name!r} cannot be exported to ONNX, only mlp, nature and impala; "
                "a file that ends in .stablehlo works for every network"
            )
    x = graph.add("Relu", _dense(graph, network.hidden, graph.add("Flatten", x)))
    return _dense(graph, network.actor, x)


def _dense(graph: Graph, layer: Hidden, x: str) -> str:
    if isinstance(layer, Dense):
        return graph.add("Gemm", x, graph.constant(layer.weight), graph.constant(layer.bias))
    scale, bias = graph.constant(layer.norm.scale), graph.constant(layer.norm.bias)
    return graph.add("LayerNormalization", _dense(graph, layer.dense, x), scale, bias, axis=-1, epsilon=1e-5)


def _activation(graph: Graph, name: str, x: str) -> str:
    match name:
        case "gelu":
            return graph.add("Gelu", x, approximate="tanh")
        case "silu":
            return graph.add("Mul", x, graph.add("Sigmoid", x))
    return graph.add({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[name], x)


def _image(graph: Graph, x: str, channels_last: bool) -> str:
    x = graph.add("Div", x, graph.constant(np.float32(255)))
    return graph.add("Transpose", x, perm=[0, 3, 1, 2]) if channels_last else x


def _conv(graph: Graph, layer: Conv, x: str, padding: int = 0) -> str:
    kernel, bias = graph.constant(layer.kernel), graph.constant(layer.bias)
    return graph.add("Conv", x, kernel, bias, strides=[layer.stride] * 2, pads=[padding] * 4)


def _stage(graph: Graph, stage: Stage, x: str) -> str:
    x = _conv(graph, stage.conv, x, padding=1)
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    for first, second in stage.blocks:
        inner = _conv(graph, first, graph.add("Relu", x), padding=1)
        x = graph.add("Add", x, _conv(graph, second, graph.add("Relu", inner), padding=1))
    return x


def _action(graph: Graph, spec: EnvSpec, outputs: str, log_std: Any, noise: str | None) -> None:
    """The action in the form that the environment takes, as the tensor `action`."""
    match spec.actions:
        case DiscreteActions(start=start):
            chosen = _largest(graph, outputs, noise)
            graph.add("Add", chosen, graph.constant(np.int64(start)), output=ACTION)
        case MultiDiscreteActions() as actions:
            numbers = _choices(graph, actions, outputs, noise)
            numbered = graph.add("Add", numbers, graph.constant(np.array(actions.starts, np.int64)))
            graph.reshape(numbered, *actions.environment_shape, output=ACTION)
        case BoxActions() as actions:
            if noise is not None:
                outputs = graph.add("Add", outputs, graph.add("Mul", noise, graph.constant(np.exp(log_std))))
            low, high = map(graph.constant, actions.bounds)
            clipped = graph.add("Min", graph.add("Max", outputs, low), high)
            graph.reshape(clipped, *actions.environment_shape, output=ACTION)


def _largest(graph: Graph, logits: str, noise: str | None) -> str:
    perturbed = logits if noise is None else graph.add("Add", logits, noise)
    return graph.add("ArgMax", perturbed, axis=-1, keepdims=0)


def _choices(graph: Graph, actions: MultiDiscreteActions, logits: str, noise: str | None) -> str:
    """One choice for each part of the action; the noise of a part is a row, padded to the longest part."""
    ends = np.cumsum(actions.counts)
    chosen = []
    for part, (count, end) in enumerate(zip(actions.counts, ends, strict=True)):
        own = graph.add("Gather", logits, graph.constant(np.arange(end - count, end)), axis=1)
        row = None
        if noise is not None:
            of_part = graph.add("Gather", noise, graph.constant(np.int64(part)), axis=1)
            row = graph.add("Gather", of_part, graph.constant(np.arange(count)), axis=1)
        chosen.append(graph.add("ArgMax", own if row is None else graph.add("Add", own, row), axis=-1, keepdims=1))
    return graph.add("Concat", *chosen, axis=1)
