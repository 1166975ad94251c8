"""Which Gymnasium spaces are supported, and how they are converted."""

from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces

from trustax.envs.gymnasium_spaces import spec_of
from trustax.errors import TrustaxError
from trustax.types import MultiDiscreteActions

BOX = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (BOX, (2,), "float32"),
        (spaces.Box(-1, 1, (2, 3, 4, 5), np.float64), (2, 3, 4, 5), "float32"),
        (spaces.Box(0, 9, (2, 2), np.int32), (2, 2), "float32"),
        (spaces.Box(0, 255, (128,), np.uint8), (128,), "float32"),
        (spaces.MultiBinary((3, 2)), (3, 2), "float32"),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), (4, 84, 84), "uint8"),
        (spaces.Box(0, 255, (36, 40, 3), np.uint8), (36, 40, 3), "uint8"),
        (spaces.Box(0, 255, (7, 7, 3), np.uint8), (7, 7, 3), "float32"),
        (spaces.Box(0, 255, (40, 35, 3), np.uint8), (40, 35, 3), "float32"),
    ],
)
def test_arrays_stay_arrays_and_large_images_stay_images(space: Space, shape: tuple[int, ...], dtype: str) -> None:
    spec = spec_of("mine", space, spaces.Discrete(2))
    assert (spec.observation_shape, spec.observation_dtype, spec.parts) == (shape, dtype, None)
    assert spec.is_image == (dtype == "uint8")


def test_multi_discrete_actions() -> None:
    matrix = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [0, -1]])
    assert spec_of("mine", BOX, spaces.MultiDiscrete([3, 2])).actions == MultiDiscreteActions((3, 2), (0, 0))
    assert spec_of("mine", BOX, matrix).actions == MultiDiscreteActions((2, 3, 4, 5), (0, 1, 0, -1), (2, 2))
    assert spec_of("mine", BOX, spaces.MultiBinary(3)).actions == MultiDiscreteActions((2, 2, 2), (0, 0, 0))


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [0, -1]]), spaces.MultiBinary(3)]
)
def test_the_environment_gets_actions_of_its_space(space: Any) -> None:
    actions = spec_of("mine", BOX, space).actions
    for chosen in (np.zeros(len(actions.counts), np.int32), np.array(actions.counts, np.int32) - 1):
        action = actions.for_environment(chosen).astype(space.dtype)
        assert space.contains(action)
        assert actions.for_environment(np.tile(chosen, (5, 4, 1))).shape == (5, 4, *space.shape)
    assert not space.contains(actions.for_environment(np.array(actions.counts, np.int32)).astype(space.dtype))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(8), "mine: observation has the space Text"),
        (spaces.Dict(a=BOX, mission=spaces.Text(8)), r"mine: observation\['mission'\] has the space Text"),
        (spaces.Dict(a=spaces.Tuple((BOX, spaces.Sequence(BOX)))), r"observation\['a'\]\[1\] has the space Sequence"),
        (spaces.Graph(BOX, None), "has the space Graph.*no fixed size; remove it"),
        (spaces.OneOf((BOX, spaces.Discrete(2))), "has the space OneOf"),
    ],
)
def test_errors_about_observations_without_a_fixed_size_name_the_key(space: Space, message: str) -> None:
    with pytest.raises(TrustaxError, match=message) as error:
        spec_of("mine", space, spaces.Discrete(2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.Dict(), spaces.Dict(a=spaces.Box(-1, 1, (2, 0)))])
def test_observations_without_a_number_are_refused(space: Space) -> None:
    with pytest.raises(
        TrustaxError, match=r"^mine: an observation must have at least one number, not the shape \(0,\)"
    ):
        spec_of("mine", space, spaces.Discrete(2))


@pytest.mark.parametrize("space", [spaces.Box(0, 9, (2,), np.int32), spaces.Dict(a=BOX), spaces.Tuple((BOX, BOX))])
def test_unsupported_actions_raise_an_error(space: Space) -> None:
    with pytest.raises(
        TrustaxError, match=r"mine: actions must be Discrete, .*, not (Box of int32|Dict|Tuple)"
    ) as error:
        spec_of("mine", BOX, space)
    assert "\n" not in str(error.value)


def test_box_actions_stay_within_bounds_that_float32_cannot_represent() -> None:
    space = spaces.Box(np.array([-0.1, -1e300]), np.array([0.7, 1e300]), dtype=np.float64)
    actions = spec_of("mine", BOX, space).actions
    for extreme in (-np.inf, np.inf):
        assert space.contains(np.asarray(actions.for_environment(np.full(2, extreme, np.float32)), np.float64))
    exact = spec_of("mine", BOX, spaces.Box(-0.1, 0.7, (2,))).actions
    np.testing.assert_array_equal(exact.bounds, np.float32([[-0.1, -0.1], [0.7, 0.7]]))
