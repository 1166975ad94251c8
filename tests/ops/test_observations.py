"""Flattened observations against Gymnasium's own flattening."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space

from trustax.envs.gymnasium_spaces import spec_of
from trustax.errors import TrustaxError
from trustax.ops.observations import Part, flatten, is_structured

BOX = spaces.Box(-1, 1, (2, 3))
SPACES = {
    "discrete": spaces.Discrete(5),
    "discrete with a start": spaces.Discrete(3, start=-1),
    "multi-discrete": spaces.MultiDiscrete([2, 3, 4]),
    "multi-discrete of rank 2": spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [-2, 0]]),
    "dict": spaces.Dict(position=BOX, room=spaces.Discrete(4)),
    "dict in an order of its own": spaces.Dict([("z", BOX), ("a", spaces.Discrete(4))]),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 255, (3,), np.uint8))),
    "nested": spaces.Dict(
        switches=spaces.MultiBinary((2, 2)),
        inner=spaces.Dict(deep=spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, (1, 2), np.int64)))),
    ),
}

each_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


def parts_of(space: Space) -> tuple[Part, ...]:
    parts = spec_of("mine", space, spaces.Discrete(2)).parts
    assert parts is not None
    return parts


@each_space
def test_one_observation_is_flattened_as_in_gymnasium(space: Space) -> None:
    parts = parts_of(space)
    space.seed(0)
    for _ in range(20):
        sample = space.sample()
        flat = flatten(parts, sample)
        assert flat.dtype == np.float32
        np.testing.assert_array_equal(flat, spaces.flatten(space, sample).astype(np.float32))
    assert spec_of("mine", space, spaces.Discrete(2)).observation_shape == flat.shape


@each_space
@pytest.mark.parametrize("as_jax", [False, True])
def test_a_batch_is_flattened_row_by_row(space: Space, as_jax: bool) -> None:
    batched = batch_space(space, 4)
    batched.seed(0)
    batch = batched.sample()
    rows = [jax.tree.map(lambda leaf, row=row: leaf[row], batch) for row in range(4)]
    parts = parts_of(space)
    if as_jax:
        flat = jax.jit(lambda batch: flatten(parts, batch))(jax.tree.map(jnp.asarray, batch))
    else:
        flat = flatten(parts, batch)
    np.testing.assert_array_equal(flat, np.stack([flatten(parts, row) for row in rows]))


def test_flattened_and_structured_observations_are_distinguished() -> None:
    parts = parts_of(SPACES["dict"])
    assert is_structured(parts, SPACES["dict"].sample())
    assert not is_structured(parts, np.zeros(10, np.float32))
    # Four states of an environment with four states look like a one-hot vector, except for their type.
    states = parts_of(spaces.Discrete(4))
    assert is_structured(states, 3)
    assert is_structured(states, np.array([0, 1, 0, 0]))
    assert not is_structured(states, np.array([0.0, 1.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (
            {"position": np.zeros((2, 3))},
            "with observation.'position'. .shape .2, 3.*.'room'. .4 .*; 'room' is missing",
        ),
        ({"position": np.zeros((3, 2)), "room": 1}, r"\(3, 2\) does not end in \(2, 3\)"),
        ((np.zeros((2, 3)), 1), "as the environment returns it"),
        ({"position": np.zeros((2, 3)), "room": 4}, r"\['room'\] .4 choices. has the values 0 to 3, not \[4\]$"),
        (
            {"position": np.zeros((2, 2, 3)), "room": np.array([0, -1])},
            r"has the values 0 to 3, not \[\[ 0\] \[-1\]\]$",
        ),
    ],
)
def test_a_wrong_structure_raises_a_one_line_error(observation: Any, message: str) -> None:
    with pytest.raises(TrustaxError, match=message) as error:
        flatten(parts_of(SPACES["dict"]), observation)
    assert "\n" not in str(error.value)
