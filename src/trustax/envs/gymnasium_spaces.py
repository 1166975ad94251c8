"""Convert Gymnasium spaces to an `EnvSpec`, and actions to batches of a Gymnasium space."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from trustax.errors import TrustaxError
from trustax.networks import can_convolve
from trustax.ops.observations import Part
from trustax.types import Actions, BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions


def spec_of(name: str, observation_space: Space, action_space: Space) -> EnvSpec:
    """The spec of an environment with these spaces; raises an error that names an unsupported space.

    Array observations keep their shape. All others are flattened to one vector, as by `gymnasium.spaces.flatten`.

    >>> spec_of("mine", Box(-1, 1, (2,)), Discrete(3)).observation_shape
    (2,)
    >>> spec_of("mine", Dict(position=Box(-1, 1, (2,)), room=Discrete(5)), Discrete(3)).observation_shape
    (7,)
    """
    actions = _actions_of(name, action_space)
    if isinstance(observation_space, Box | MultiBinary):
        shape, parts = observation_space.shape, None
    else:
        parts = tuple(_parts_of(name, observation_space))
        shape = (sum(part.size for part in parts),)
    if 0 in shape:
        raise TrustaxError(
            f"{name}: an observation must have at least one number, not the shape {shape}; if there is nothing to "
            "observe, return a constant of the space Box(0, 1, (1,))"
        )
    is_image = parts is None and observation_space.dtype == np.uint8 and can_convolve(shape)
    return EnvSpec(shape, actions, "uint8" if is_image else "float32", parts)


def _parts_of(name: str, space: Space, path: tuple[str | int, ...] = ()) -> Iterator[Part]:
    match space:
        case Dict():
            for key, inner in space.spaces.items():
                yield from _parts_of(name, inner, (*path, key))
        case Tuple():
            for index, inner in enumerate(space.spaces):
                yield from _parts_of(name, inner, (*path, index))
        case Box() | MultiBinary():
            yield Part(path, space.shape)
        case Discrete():
            yield Part(path, (), (int(space.n),), (int(space.start),))
        case MultiDiscrete():
            yield Part(path, space.shape, _flat(space.nvec), _flat(space.start))
        case _:
            where = "".join(f"[{key!r}]" for key in path)
            raise TrustaxError(
                f"{name}: observation{where} has the space {type(space).__name__}, which has no fixed size; "
                "remove it, or convert it to a Box, with a gymnasium.ObservationWrapper"
            )


def _actions_of(name: str, space: Space) -> Actions:
    match space:
        case Discrete():
            return DiscreteActions(int(space.n), int(space.start))
        case MultiDiscrete():
            return MultiDiscreteActions(_flat(space.nvec), _flat(space.start), _unless_vector(space.shape))
        case MultiBinary():
            size = int(np.prod(space.shape))
            return MultiDiscreteActions((2,) * size, (0,) * size, _unless_vector(space.shape))
        case Box() if np.issubdtype(space.dtype, np.floating):
            return BoxActions(_flat(space.low), _flat(space.high), _unless_vector(space.shape))
    raise TrustaxError(
        f"{name}: actions must be Discrete, MultiDiscrete, MultiBinary or a Box of floats, not {_describe(space)}; "
        "convert them with a gymnasium.ActionWrapper"
    )


def _flat(array: np.ndarray) -> tuple[Any, ...]:
    return tuple(array.ravel().tolist())


def _unless_vector(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if len(shape) == 1 else shape


def _describe(space: Space) -> str:
    kind = type(space).__name__
    return f"{kind} of {space.dtype} with shape {space.shape}" if isinstance(space, Box) else kind


def to_batch(action: Any, space: Space, dtype: Any) -> Any:
    """Reshape actions `seed env ...` to one batch for the space, and cast them to `dtype`; NumPy or JAX."""
    assert space.shape is not None
    return action.reshape((-1, *space.shape)).astype(dtype)
