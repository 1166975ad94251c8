"""Gymnasium's spaces in Trustax's terms: which are supported, and how actions become a batch of theirs."""

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
    """The spec of an environment with these spaces, or an error that names the space that has no place here.

    Arrays stay as they are. Everything else is flattened to one vector, as `gymnasium.spaces.flatten` does it.

    >>> spec_of("mine", Box(-1, 1, (2,)), Discrete(3)).observation_shape
    (2,)
    >>> spec_of("mine", Dict(position=Box(-1, 1, (2,)), room=Discrete(5)), Discrete(3)).observation_shape
    (7,)
    """
    actions = _actions_of(name, action_space)
    if isinstance(observation_space, Box | MultiBinary):
        is_image = observation_space.dtype == np.uint8 and can_convolve(observation_space.shape)
        return EnvSpec(observation_space.shape, actions, "uint8" if is_image else "float32")
    parts = tuple(_parts_of(name, observation_space))
    return EnvSpec((sum(part.size for part in parts),), actions, parts=parts)


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
                f"{name}: observation{where} is of the space {type(space).__name__}, which is no fixed number of "
                "numbers; leave it out, or turn it into a Box, by a gymnasium.ObservationWrapper"
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
        f"{name}: actions must be Discrete, MultiDiscrete, MultiBinary or a Box of floats, not {_in_words(space)}; "
        "a gymnasium.ActionWrapper can turn one into the other"
    )


def _flat(array: np.ndarray) -> tuple[Any, ...]:
    return tuple(array.ravel().tolist())


def _unless_vector(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if len(shape) == 1 else shape


def _in_words(space: Space) -> str:
    kind = type(space).__name__
    return f"{kind} of {space.dtype} with shape {space.shape}" if isinstance(space, Box) else kind


def to_batch(action: Any, space: Space, dtype: Any) -> Any:
    """Actions `seed env ...` as one batch of the space's own dtype; NumPy or JAX."""
    assert space.shape is not None
    return action.reshape((-1, *space.shape)).astype(dtype)
