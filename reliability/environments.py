"""Environments with a fault: each is named in one line within the iteration, or training works in spite of it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

import trustax as tx
from reliability.bad_envs import BAD_ENV, NUM_ENVS, BadJaxEnv, Sound, bad_value, with_parts

HORIZON, ITERATIONS = 8, 5
LATE_STEP = 30


class Case(NamedTuple):
    """An environment, and the message that training must give; None if training must work."""

    name: str
    env: Any
    message: str | None = None


VALUES = {
    ("observation", np.nan): r"observation\[1\] is nan, which is not finite",
    ("observation", 1e30): r"observation\[1\] is 1e\+30, which is too large",
    ("reward", np.nan): "reward is nan, which is not finite",
    ("reward", np.inf): "reward is inf, which is not finite",
    ("reward", 1e38): r"reward is 1e\+38, which is too large",
}


IN_JAX = {
    ("observation", np.nan): "observation is nan, which is not finite",
    ("observation", 1e30): "the observation became too large for the running statistics",
    ("reward", np.nan): "reward is nan, which is not finite",
    ("reward", np.inf): "reward is inf, which is not finite",
    ("reward", 1e38): r"reward is 1e\+38, which is too large",
}
"""Compiled rollouts are normalized before they are checked, so a large observation has no place any more."""


def bad_values() -> Iterator[Case]:
    """Bad values in one of eight environments, at the first step and late; and in JAX."""
    for (field, value), message in VALUES.items():
        for step in (1, LATE_STEP):
            where = f"environment {BAD_ENV}, step {step}: "
            yield Case(f"{field} {value} at step {step}", bad_value(field, value, step), where + message)
    for (field, value), message in IN_JAX.items():
        for step in (1, LATE_STEP):
            where = "" if (field, value) == ("observation", 1e30) else f"step {step}: "
            yield Case(f"{field} {value} in JAX at step {step}", BadJaxEnv(field, value, step), where + message)


PAIR = spaces.Dict(a=spaces.Box(-9, 9, (2,)), b=spaces.Discrete(3))
IN_STEP, IN_RESET = "environment 0, step 1: ", "environment 0: "


def wrong_spaces() -> Iterator[Case]:
    """Values that do not fit the spaces, unusual spaces, and old interfaces."""
    observe = Sound.observe
    yield Case("float64 observation", with_parts(observe=lambda env: observe(env).astype(np.float64)))
    yield Case("float64 space", with_parts(observation_space=spaces.Box(-9, 9, (2,), np.float64)))
    yield Case("observation outside the Box", with_parts(observe=lambda env: 100 * observe(env)))
    yield Case("integers in a Box", with_parts(observe=lambda env: observe(env).astype(int)))
    shape = r"observation has the shape \(3,\), but its space has \(2,\)"
    yield Case("wrong shape", with_parts(observe=lambda env: np.zeros(3, np.float32)), IN_RESET + shape)
    late = with_parts(observe=lambda env: np.zeros(2 + (env.steps == 1), np.float32))
    yield Case("wrong shape in a step", late, IN_STEP + shape)
    none = "observation is None, but its space has the dtype float32"
    yield Case("no observation", with_parts(observe=lambda env: None), IN_RESET + none)
    image = with_parts(observation_space=spaces.Box(0, 255, (2,), np.uint8), observe=lambda env: np.zeros(2))
    yield Case(
        "floats for bytes", image, IN_RESET + "observation is of dtype float64, but its space has the dtype uint8"
    )
    missing = with_parts(observation_space=PAIR, observe=lambda env: {"a": observe(env)})
    yield Case("missing key", missing, IN_RESET + "observation lacks 'b'; expected Dict.*, got the keys 'a'")
    yield Case("Discrete from 1", with_parts(action_space=spaces.Discrete(3, start=1)))
    yield Case("MultiDiscrete of rank 2", with_parts(action_space=spaces.MultiDiscrete([[2, 3], [4, 5]])))
    both = spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.Discrete(3)))
    yield Case("Tuple of observations", with_parts(observation_space=both, observe=lambda env: (observe(env), 1)))
    yield Case(
        "Tuple of actions", with_parts(action_space=both), "actions must be Discrete, MultiDiscrete, .* not Tuple"
    )
    yield Case("unbounded actions", with_parts(action_space=spaces.Box(-np.inf, np.inf, (2,))))
    yield Case("text", with_parts(observation_space=spaces.Text(3)), "observation has the space Text")


def wrong_results() -> Iterator[Case]:
    """Rewards that are no numbers, missing values, and both flags at once."""
    step, reset = Sound.step, Sound.reset
    yield Case("reward in an array", with_parts(reward=lambda env: np.ones(1)))
    two = r"the reward is an array of shape \(2,\), not a number"
    yield Case("two rewards", with_parts(reward=lambda env: np.ones(2)), IN_STEP + two)
    yield Case("no reward", with_parts(reward=lambda env: None), IN_STEP + "the reward is None, not a number")
    four = "step must return the 5 values observation, reward, terminated, truncated, info, not 4 values"
    yield Case("old step", with_parts(step=lambda env, action: step(env, action)[1:]), IN_STEP + four)
    alone = "reset must return the 2 values observation, info, not a ndarray"
    yield Case("old reset", with_parts(reset=lambda env, **options: reset(env, **options)[0]), IN_RESET + alone)
    yield Case("both flags", with_parts(flags=lambda env: (env.time == 10, env.time == 10)))
    yield Case("flags as integers", with_parts(flags=lambda env: (int(env.time == 10), 0)))


def cases() -> list[Case]:
    """All cases."""
    return [*bad_values(), *wrong_spaces(), *wrong_results()]


def check() -> tuple[int, int, list[str]]:
    """How many cases were tried, how many passed, and the failures of the others."""
    tried = cases()
    failures = [f"{case.name}: {problem}" for case in tried if (problem := try_case(case)) is not None]
    return len(tried), len(tried) - len(failures), failures


def try_case(case: Case) -> str | None:
    """Train on the environment of a case; return what is wrong, or None."""
    run = tx.Run(
        algorithm=tx.PPO(num_epochs=1, num_minibatches=2, hidden_sizes=(4,)),
        env_id="Case",
        num_envs=NUM_ENVS,
        horizon=HORIZON,
        total_timesteps=ITERATIONS * HORIZON * NUM_ENVS,
    )
    try:
        for _ in tx.iterations(run, case.env):
            pass
    except tx.TrustaxError as error:
        said = str(error)
        if case.message is None or not re.search(case.message, said) or "\n" in said:
            return f"expected {case.message or 'no error'!r}, got {said!r}"
    except Exception as error:
        return f"expected {case.message or 'no error'!r}, got {type(error).__name__}: {error}"
    else:
        return None if case.message is None else f"expected {case.message!r}, got no error"
    return None
