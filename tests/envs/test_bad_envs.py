"""Environments with a fault are named at the first reset or step; the slow test trains on all of them."""

import itertools

import gymnasium
import numpy as np
import pytest
from reliability import environments as reliability
from reliability.bad_envs import NUM_ENVS

from trustax.envs.errors import FaultyEnvError
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.stepping import require_observation
from trustax.errors import TrustaxError

REFUSED = [case for case in (*reliability.wrong_spaces(), *reliability.wrong_results()) if case.message]


def play_one_step(case: reliability.Case) -> None:
    environment = GymnasiumHost(case.env, [0], NUM_ENVS)
    environment.reset()
    environment.step(np.zeros((1, NUM_ENVS), int))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_an_error_names_the_environment_the_step_and_the_field(case: reliability.Case) -> None:
    with pytest.raises(TrustaxError, match=case.message) as error:
        play_one_step(case)
    assert "\n" not in str(error.value)


class CannotClose(gymnasium.Env):
    """Counts the calls of `close`, each of which fails."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    closed = 0

    def close(self) -> None:
        CannotClose.closed += 1
        raise OSError("the window is gone")


def test_a_failure_to_close_is_a_warning_and_all_copies_are_closed() -> None:
    CannotClose.closed = 0
    with pytest.warns(UserWarning, match="closing an environment failed: close raised OSError: the window is gone"):
        GymnasiumHost(CannotClose, [0], NUM_ENVS).close()
    assert CannotClose.closed == NUM_ENVS


def test_copies_with_different_spaces_are_closed() -> None:
    def different() -> CannotClose:
        env = CannotClose()
        env.action_space = gymnasium.spaces.Discrete(next(sizes))
        return env

    CannotClose.closed, sizes = 0, itertools.count(2)
    with pytest.raises(TrustaxError, match="all copies must have the same"):
        GymnasiumHost(different, [0], NUM_ENVS)
    assert CannotClose.closed == NUM_ENVS


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
@pytest.mark.parametrize("space", [property(), None])
def test_copies_without_a_space_are_closed(name: str, space: object) -> None:
    lacking = type("Lacking", (CannotClose,), {name: space})
    CannotClose.closed = 0
    with pytest.raises(TrustaxError, match=f"environment 0: its {name} must be one of gymnasium.spaces, not None"):
        GymnasiumHost(lacking, [0], NUM_ENVS)
    assert CannotClose.closed == NUM_ENVS


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (gymnasium.spaces.Discrete(3), 3),
        (gymnasium.spaces.Discrete(3, start=1), 0),
        (gymnasium.spaces.MultiDiscrete([2, 3]), [0, 3]),
        (gymnasium.spaces.MultiDiscrete([2, 3], start=[1, 0]), [3, 0]),
    ],
)
def test_a_choice_that_does_not_exist_is_refused(space: gymnasium.Space, value: object) -> None:
    spaces = gymnasium.spaces.Dict(room=space)
    with pytest.raises(FaultyEnvError, match=r"observation\['room'\] is .*, which is not in (Multi)?Discrete"):
        require_observation(spaces, {"room": value}, 0)
    for _ in range(20):
        require_observation(spaces, spaces.sample(), 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_faulty_environment_raises_a_named_error_or_works() -> None:
    tried, passed, failures = reliability.check()
    assert failures == []
    assert tried == passed == 42
