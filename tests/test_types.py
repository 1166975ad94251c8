"""Specs hold Python's own numbers in tuples, whatever they are made of, and refuse what no environment has."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import trustax as tx
from trustax.networks import Architecture
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

BOUNDS = BoxActions((-1.0, -1.0), (1.0, 1.0), (2, 1))


@pytest.fixture(autouse=True)
def _types_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tests every call is type-checked, which it is not for users."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        (BoxActions, ([-1.0, -1.0], [1.0, 1.0], [2, 1]), BOUNDS),
        (BoxActions, (np.full(2, -1, np.float32), jnp.ones(2), np.array([2, 1])), BOUNDS),
        (BoxActions, (tuple(np.full(2, -1, np.float32)), (1.0, 1.0), (np.int64(2), 1)), BOUNDS),
        (DiscreteActions, (np.int32(3), np.int64(1)), DiscreteActions(3, 1)),
        (MultiDiscreteActions, (np.array([2, 3]), [0, 1]), MultiDiscreteActions((2, 3), (0, 1))),
        (EnvSpec, ([np.int64(3)], BOUNDS), EnvSpec((3,), BOUNDS)),
        (EnvSpec, (np.array([3, 4]), BOUNDS), EnvSpec((3, 4), BOUNDS)),
    ],
)
def test_lists_and_arrays_become_tuples(kind: type, arguments: Any, expected: Any) -> None:
    made = kind(*arguments)
    assert repr(made) == repr(expected)
    assert hash(made) == hash(expected)


def test_an_agent_with_bounds_of_arrays_is_saved(tmp_path: Path) -> None:
    bounds: Any = tuple(np.full(2, 0.1, np.float32))
    spec = EnvSpec((3,), BoxActions(bounds, bounds))
    tx.Agent(Architecture(spec).init(jax.random.key(0))).save(tmp_path / "agent")
    assert tx.load(tmp_path / "agent").spec == spec


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (DiscreteActions, (0,), "the count of DiscreteActions must be at least 1, not 0"),
        (DiscreteActions, (2.5,), "count must be a whole number, not 2.5"),
        (MultiDiscreteActions, ((2, 0), (0, 0)), "a start for each, not the counts (2, 0) and the starts (0, 0)"),
        (MultiDiscreteActions, ((2, 2), (0,)), "a start for each, not the counts (2, 2) and the starts (0,)"),
        (MultiDiscreteActions, ((), ()), "not the counts () and the starts ()"),
        (MultiDiscreteActions, ((2, 2), (0, 0), (3,)), "array_shape must be a shape of 2 entries, not (3,)"),
        (BoxActions, (-1.0, 1.0), "low must be a tuple of numbers, not -1.0"),
        (BoxActions, (np.zeros((2, 1)), np.ones(2)), "low must be a tuple of numbers, not [[0.0], [0.0]]"),
        (BoxActions, ((-1.0,), (1.0, 1.0)), "not the low bounds (-1.0,) and the high bounds (1.0, 1.0)"),
        (BoxActions, ((), ()), "not the low bounds () and the high bounds ()"),
        (BoxActions, ((1.0,), (0.0,)), "with low <= high, not the low bounds (1.0,) and the high bounds (0.0,)"),
        (BoxActions, ((float("nan"),), (0.0,)), "with low <= high, not the low bounds (nan,)"),
        (BoxActions, ((0.0,), (1.0,), 1), "box_shape must be a tuple of whole numbers, not 1"),
        (EnvSpec, (2, BOUNDS), "observation_shape must be a tuple of whole numbers, not 2"),
        (EnvSpec, ((3, 0), BOUNDS), "observation_shape must have sizes of at least 1, not (3, 0)"),
        (EnvSpec, ((2,), 2), "must be DiscreteActions, MultiDiscreteActions or BoxActions, not int"),
        (EnvSpec, ((2,), BOUNDS, "int32"), "observation_dtype must be 'float32' or 'uint8', not 'int32'; with"),
        (EnvSpec, ((2,), BOUNDS, np.float32), "observation_dtype must be a string, not <class 'numpy.float32'>"),
    ],
)
def test_what_no_environment_has_is_refused_in_one_line(kind: type, arguments: Any, message: str) -> None:
    with pytest.raises(tx.TrustaxError) as error:
        kind(*arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
