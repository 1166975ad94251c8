"""Gymnasium's spaces in Trustax's terms: which are supported, and how actions become a batch of theirs."""

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from trustax.errors import TrustaxError
from trustax.types import BoxActions, DiscreteActions, EnvSpec


def spec_of(name: str, observation_space: Space, action_space: Space) -> EnvSpec:
    """The spec of an environment with these spaces, or an error that names the space that has no place here.

    >>> spec_of("mine", Box(-1, 1, (2,)), Discrete(3)).observation_shape
    (2,)
    """
    is_float = isinstance(observation_space, Box) and np.issubdtype(observation_space.dtype, np.floating)
    is_image = (
        isinstance(observation_space, Box) and observation_space.dtype == np.uint8 and len(observation_space.shape) == 3
    )
    if not (is_float or is_image):
        raise TrustaxError(
            f"{name}: observations must be a Box of floats or a Box of uint8 images (rank 3), "
            f"not {_in_words(observation_space)}; a Gymnasium wrapper can turn them into one"
        )
    assert observation_space.shape is not None
    return EnvSpec(observation_space.shape, _actions_of(name, action_space), "uint8" if is_image else "float32")


def _actions_of(name: str, space: Space) -> DiscreteActions | BoxActions:
    if isinstance(space, Discrete):
        return DiscreteActions(int(space.n), int(space.start))
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        box_shape = None if len(space.shape) == 1 else space.shape
        return BoxActions(tuple(space.low.ravel().tolist()), tuple(space.high.ravel().tolist()), box_shape)
    raise TrustaxError(f"{name}: actions must be Discrete or a Box of floats, not {_in_words(space)}")


def _in_words(space: Space) -> str:
    kind = type(space).__name__
    return f"{kind} of {space.dtype} with shape {space.shape}" if isinstance(space, Box) else kind


def to_batch(action: Any, space: Space, dtype: Any) -> Any:
    """Actions `seed env ...` as one batch of the space's own dtype; NumPy or JAX."""
    assert space.shape is not None
    return action.reshape((-1, *space.shape)).astype(dtype)
