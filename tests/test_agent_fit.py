"""An agent fits an environment whose observations and actions mean the same as those that it was trained with."""

from typing import Any

import jax
import pytest
from gymnasium import spaces

import trustax as tx
from trustax.envs.gymnasium_spaces import spec_of
from trustax.networks import Architecture

NUMBERS = spaces.Box(-1.0, 1.0, (2,))
PAIR = spaces.Dict(first=spaces.Box(-1.0, 1.0, (1,)), second=spaces.Discrete(2))


def fit(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> None:
    """Require that an agent of these spaces of observations and actions fits those of an environment."""
    agent = tx.Agent(Architecture(spec_of("ours", *ours), (4,)).init(jax.random.key(0)))
    agent.require_fit(spec_of("theirs", *theirs), "theirs")


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (spaces.Discrete(3), spaces.Discrete(3, start=1), "numbered from 0, but .* numbered from 1"),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([3, 2]), r"\(2, 3\) choices .*, but .* \(3, 2\) choices"),
        (
            spaces.MultiDiscrete([2, 2]),
            spaces.MultiDiscrete([2, 2], start=[0, 1]),
            r"from \(0, 0\), but .* from \(0, 1\)",
        ),
        (spaces.MultiBinary(2), spaces.MultiBinary([2, 1]), r"of shape \(2,\) .*, but .* of shape \(2, 1\)"),
        (spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (2, 2)), r"of shape \(4,\), but .* of shape \(2, 2\)"),
    ],
)
def test_actions_must_fit_in_their_counts_numbers_and_shape(ours: Any, theirs: Any, difference: str) -> None:
    with pytest.raises(tx.TrustaxError, match=rf"^the agent has .*{difference}.*$"):
        fit((NUMBERS, ours), (NUMBERS, theirs))
    fit((NUMBERS, ours), (NUMBERS, ours))


def test_bounds_and_flattened_observations_may_differ() -> None:
    fit((NUMBERS, spaces.Box(-1, 1, (2,))), (NUMBERS, spaces.Box(-2, 3, (2,))))
    fit((PAIR, spaces.Discrete(2)), (spaces.flatten_space(PAIR), spaces.Discrete(2)))


@pytest.mark.parametrize("second", [spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2, start=1)])
def test_structured_observations_must_have_the_same_parts(second: Any) -> None:
    other = spaces.Dict(first=PAIR["first"], second=second)
    with pytest.raises(tx.TrustaxError, match=r"made of .*\['second'\] \(2 choices\) from \(0,\) .*, but theirs has"):
        fit((PAIR, spaces.Discrete(2)), (other, spaces.Discrete(2)))
