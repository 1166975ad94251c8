"""Sound environments pass the check; each kind of fault is found, named, and gets advice."""

import io
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from tests.probes import ConstantReward
from trustax.envs.check import Finding, _gymnasium_checker, check, report
from trustax.envs.random_play import play
from trustax.errors import TrustaxError
from trustax.types import BoxActions, EnvSpec


class Walk(gymnasium.Env):
    """A random walk that ends when it leaves its segment of the line."""

    observation_space: Any = spaces.Box(-3, 3, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-1, 1), 0
        return self.observe(), {}

    def observe(self) -> Any:
        return np.array([self.place, self.time % 3], np.float32)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        self.place += action - 0.5 + 0.1 * self.np_random.normal()
        self.time += 1
        return self.observe(), 1.0, bool(abs(self.place) > 2), False, {}


class NotANumber(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self.time == 7 else reward, *rest


class BlindSpot(Walk):
    def observe(self) -> Any:
        return np.array([np.nan if self.time == 5 else self.place, 0], np.float32)


class Infinite(Walk):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observe(self) -> Any:
        return np.array([np.inf if self.time == 5 else self.place, 0], np.float32)


class DoublePrecision(Walk):
    def observe(self) -> Any:
        return super().observe().astype(np.float64)


class Huge(Walk):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observe(self) -> Any:
        return np.array([0.0, 1e300 if self.time == 5 else self.place])


class BothFlags(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, reward, terminated, *_ = super().step(action)
        return observation, reward, terminated, terminated, {}


class OutOfBounds(Walk):
    def observe(self) -> Any:
        return 4 * super().observe()


class UnknownRoom(Walk):
    observation_space = spaces.Dict(place=spaces.Box(-3, 3, (1,)), room=spaces.Discrete(3))

    def observe(self) -> Any:
        return {"place": np.array([self.place], np.float32), "room": self.time % 4}


class OwnLimit(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, reward, _, *rest = super().step(action)
        self.place = np.clip(self.place, -1, 1)
        return observation, reward, self.time == 20, *rest


class Unseeded(Walk):
    def reset(self, **arguments: Any) -> tuple[Any, dict]:
        return super().reset(seed=None if arguments.get("seed") is None else np.random.randint(2**30))


class ShakyStep(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        self.place += 0.01 * np.random.normal()
        return super().step(action)


class OneSeedForAll(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        return super().reset(seed=3)


class RestartsItsSeed(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        self.first_seed = getattr(self, "first_seed", 0) if seed is None else seed
        return super().reset(seed=self.first_seed)


class Picky(Walk):
    action_space = spaces.Box(-1, 1, (1,))

    def step(self, action: Any) -> tuple[Any, ...]:
        if abs(action[0]) >= 1:
            raise ValueError("that is too much")
        return super().step(action[0] > 0)


class Fragile(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        return super().step(action + 0 // (11 - self.time))


class OldInterface(Walk):
    def reset(self, **arguments: Any) -> Any:
        return super().reset(**arguments)[0]


class Unfinished(Walk):
    def __init__(self) -> None:
        raise KeyError("no such map")


class Talkative(Walk):
    observation_space = spaces.Dict(place=spaces.Box(-3, 3, (1,)), mission=spaces.Text(9))


class Endless(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, *_ = super().step(action)
        self.place = np.clip(self.place, -2, 2)
        return observation, 0.0, False, False, {}


class Generous(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, reward, *rest = super().step(action)
        return observation, 1e6 * reward, *rest


class Numerals(Walk):
    def step(self, action: Any) -> tuple[Any, ...]:
        observation, reward, terminated, *rest = super().step(action)
        return observation, np.array(reward), int(terminated), *rest


class WideActions(Walk):
    action_space = spaces.Box(-500, 500, (1,))

    def step(self, action: Any) -> tuple[Any, ...]:
        return super().step(action[0] > 0)


class FreeActions(WideActions):
    action_space = spaces.Box(-np.inf, np.inf, (1,))


def found(env: Any, subject: str) -> Finding:
    (finding,) = (finding for finding in check(env) if finding.subject == subject)
    return finding


@pytest.mark.parametrize("env", [Walk, "CartPole-v1", "gymnasium:Pendulum-v1", "gymnasium.envs:FrozenLake-v1"])
def test_a_sound_environment_passes(env: Any) -> None:
    findings = check(env)
    assert {finding.verdict for finding in findings} == {"good"}
    assert not any(finding.advice for finding in findings)
    names = {finding.subject for finding in findings}
    assert {
        "random play",
        "observations",
        "rewards",
        "episode ends",
        "new episodes",
        "same seed",
        "other seeds",
    } <= names
    assert ("Gymnasium's checker" in names) == (env != "CartPole-v1")


def test_environments_of_envpool_pass_although_their_bounds_are_wrong() -> None:
    pytest.importorskip("envpool")
    assert {finding.verdict for finding in check("LunarLander-v3")} == {"good"}


@pytest.mark.parametrize(
    ("env", "subject", "seen"),
    [
        (NotANumber, "rewards", "nan at step 7"),
        (BlindSpot, "observation values", "after step, observation[0] = nan"),
        (Infinite, "observation values", "inf at step 5"),
        (DoublePrecision, "observations", "after reset, observation has the dtype float64, but its space has float32"),
        (Huge, "observation values", "after step, observation[1] = 1e+300, which does not fit float32 and becomes inf"),
        (OutOfBounds, "observation values", "is not between -3 and 3"),
        (UnknownRoom, "observations", "observation['room'] is 3, which is not in Discrete(3)"),
        (Unseeded, "same seed", "different first observations each time"),
        (ShakyStep, "same seed", "different steps each time"),
        (Picky, "random play", "step 1 raised ValueError: that is too much (test_check.py, line "),
        (Fragile, "random play", "step 12 raised ZeroDivisionError: "),
        (OldInterface, "random play", "reset must return the 2 values observation, info, not "),
        (Unfinished, "creation", "KeyError: 'no such map'"),
        (Talkative, "creation", "observation['mission'] has the space Text"),
        (OneSeedForAll, "Gymnasium's checker", "random number generators are not different"),
    ],
)
def test_faults_are_found(env: Any, subject: str, seen: str) -> None:
    finding = found(env, subject)
    assert finding.verdict == "bad"
    assert seen in finding.seen
    assert "\n" not in finding.seen


@pytest.mark.parametrize(
    ("env", "subject", "seen"),
    [
        (OwnLimit, "episode ends", "all of 56 episodes terminated at step 20 and none later, as if at a time limit"),
        (BothFlags, "both flags", "episodes terminated and truncated at the same step"),
        (OneSeedForAll, "other seeds", "the same episodes"),
        (RestartsItsSeed, "other seeds", "all episodes of a seed start alike"),
        (Endless, "episode ends", "no episode ended within 2000 steps"),
        (Endless, "rewards", "all 0 in random play"),
        (Generous, "rewards", "always 1e+06"),
        (Numerals, "flags", "terminated or truncated is a int, not a bool"),
        (Numerals, "rewards", "a reward is a ndarray, not a number"),
        (WideActions, "actions", "1 real number between -500 and 500"),
        (FreeActions, "actions", "between -inf and inf"),
    ],
)
def test_choices_that_may_be_intended_get_a_warning(env: Any, subject: str, seen: str) -> None:
    finding = found(env, subject)
    assert finding.verdict == "look"
    assert seen in finding.seen
    assert finding.advice


def test_an_environment_that_terminates_at_its_declared_time_limit_is_broken() -> None:
    gymnasium.register("TrustaxLimit-v0", OwnLimit, max_episode_steps=20)
    try:
        finding = found("gymnasium:TrustaxLimit-v0", "episode ends")
    finally:
        del gymnasium.registry["TrustaxLimit-v0"]
    assert finding.verdict == "bad"
    assert "terminated and truncated at the same step 20" in finding.seen
    assert "truncated=True" in finding.advice


def test_a_jax_env_must_match_its_spec() -> None:
    class Careless(ConstantReward):
        def observe(self, state: Any) -> Any:
            return np.repeat(state, 2)

    assert found(ConstantReward(), "observations").verdict == "good"
    assert "observe returns the shape (2,), but its spec declares (1,)" in found(Careless(), "random play").seen


def test_the_advice_for_a_jax_env_does_not_mention_gymnasium() -> None:
    class Forever(ConstantReward):
        spec: ClassVar = EnvSpec((1,), BoxActions((-50.0,), (50.0,)))

        def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
            return state, state + 1, state > 0

    advice = {finding.subject: finding.advice for finding in check(Forever())}
    assert "declare bounds of ±1 and scale in step" in advice["actions"]
    assert "set time_limit" in advice["episode ends"]
    assert "reset must use its key" in advice["other seeds"]
    assert "gymnasium" not in " ".join(advice.values())


def test_an_environment_that_fails_the_checker_of_gymnasium_is_closed() -> None:
    class Counting(OldInterface):
        num_made, num_closed = 0, 0

        def __init__(self) -> None:
            super().__init__()
            Counting.num_made += 1

        def close(self) -> None:
            Counting.num_closed += 1

    assert _gymnasium_checker(Counting).verdict == "bad"
    assert (Counting.num_made, Counting.num_closed) == (1, 1)


def test_an_unknown_id_is_not_a_finding() -> None:
    with pytest.raises(TrustaxError, match="did you mean CartPole-v1"):
        check("CartPool-v1")


def test_random_play_starts_with_the_lowest_and_highest_actions() -> None:
    taken: list[Any] = []

    class Diary(WideActions):
        def step(self, action: Any) -> tuple[Any, ...]:
            taken.append(float(action[0]))
            return super().step(action)

    play(Diary, num_steps=3)
    assert taken[:8] == [-500.0] * 4 + [500.0] * 4
    assert all(-500 < action < 500 for action in taken[8:])


def printed(findings: list[Finding]) -> str:
    text = io.StringIO()
    report("my_package:Mine-v0", findings, Console(file=text, width=100))
    return text.getvalue()


def test_the_report_marks_every_finding_and_ends_with_a_conclusion() -> None:
    good, look = Finding("good", "rewards", "from 0 to 1"), Finding("look", "episode ends", "none came", "wait longer")
    bad = Finding("bad", "same seed", "other [steps]", "seed it")
    text = printed([good, look, bad])
    marked = [line.rstrip() for line in text.splitlines() if line.startswith(("✓", "!", "✗"))]
    assert marked == ["✓  rewards       from 0 to 1", "!  episode ends  none came", "✗  same seed     other [steps]"]
    assert "→ wait longer" in text
    assert "not fit for training: 1 to fix (✗), 1 to review (!)" in text
    assert "trustax train" not in text
    text = printed([good, look])
    assert "fit for training, with 1 to review (!)" in text
    assert text.endswith("next  trustax train mcpo --env-id gymnasium:my_package:Mine-v0\n")
