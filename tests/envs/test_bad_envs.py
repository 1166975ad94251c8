"""Environments with a fault are named at the first reset or step; the slow test trains on all of them."""

import numpy as np
import pytest
from reliability import environments as reliability
from reliability.bad_envs import NUM_ENVS

from trustax.envs.gymnasium import GymnasiumHost
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_faulty_environment_raises_a_named_error_or_works() -> None:
    tried, passed, failures = reliability.check()
    assert failures == []
    assert tried == passed == 42
