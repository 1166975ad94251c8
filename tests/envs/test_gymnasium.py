"""Gymnasium environments as host environments: a scripted one, and all kinds of spaces."""

import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from trustax.envs.gymnasium import GymnasiumHost
from trustax.errors import TrustaxError
from trustax.types import BoxActions, DiscreteActions


class Scripted(gymnasium.Env):
    """Three steps; observes a random number per episode and the step; records its actions."""

    def __init__(
        self,
        observation_space: Any = None,
        action_space: Any = None,
        ending: str = "terminated",
        reports_success: bool = False,
    ):
        numbers = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = numbers if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.ending = ending
        self.reports_success = reports_success
        self.actions: list[Any] = []

    def observe(self) -> Any:
        if not isinstance(self.observation_space, spaces.Box):
            self.observation_space.seed(self.time)
            return self.observation_space.sample()
        flat = np.resize([self.episode, float(self.time)], self.observation_space.shape)
        return flat.astype(self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode, self.time = self.np_random.uniform(), 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.actions.append(action)
        self.time += 1
        over = self.time == 3
        terminated, truncated = over and "terminated" in self.ending, over and "truncated" in self.ending
        info = {"is_success": self.episode > 0.5} if over and self.reports_success else {}
        return self.observe(), 10.0 + self.time, terminated, truncated, info


def recorded(made: list[Scripted], **options: Any) -> Callable[[], gymnasium.Env]:
    def scripted() -> gymnasium.Env:
        made.append(Scripted(**options))
        return made[-1]

    return scripted


@pytest.mark.parametrize("ending", ["terminated", "truncated", "terminated and truncated"])
def test_the_script_is_played_with_next_step_autoreset(ending: str) -> None:
    made: list[Scripted] = []
    environment = GymnasiumHost(recorded(made, ending=ending), [0, 1], 2)
    first = environment.reset()
    assert first.dtype == np.float32
    steps = [environment.step(np.full((2, 2), row % 2)) for row in range(5)]
    observation = np.stack([first, *(step.observation for step in steps)])
    np.testing.assert_array_equal(observation[:, 1, 1, 1], [0, 1, 2, 3, 0, 1])
    np.testing.assert_array_equal([step.reward[1, 0] for step in steps], [11, 12, 13, 0, 11])
    ends = [False, False, True, False, False]
    for flag in ("terminated", "truncated"):
        expected = ends if flag in ending else [False] * 5
        np.testing.assert_array_equal([getattr(step, flag)[0, 1] for step in steps], expected)
    # The fourth row resets and ignores its action.
    assert made[0].actions == [0, 1, 0, 0]
    episode = observation[..., 0]
    assert (episode[3] != episode[4]).all()
    assert len(set(episode[[0, 4]].ravel())) == 8
    # Later steps do not overwrite earlier results.
    np.testing.assert_array_equal(steps[0].observation[..., 1], 1)


def test_discrete_actions_are_numbered_from_the_spaces_start() -> None:
    made: list[Scripted] = []
    environment = GymnasiumHost(recorded(made, action_space=spaces.Discrete(3, start=1)), [0], 2)
    actions = environment.spec.actions
    assert actions == DiscreteActions(3, start=1)
    environment.reset()
    environment.step(actions.for_environment(np.array([[0, 2]], np.int32)))
    assert [env.actions for env in made] == [[1], [3]]


def test_box_actions_take_the_spaces_shape_and_type() -> None:
    made: list[Scripted] = []
    low = np.array([[-1.0, -2.0], [-3.0, -4.0]])
    environment = GymnasiumHost(recorded(made, action_space=spaces.Box(low, -low, dtype=np.float64)), [0], 1)
    actions = environment.spec.actions
    assert actions == BoxActions((-1.0, -2.0, -3.0, -4.0), (1.0, 2.0, 3.0, 4.0), box_shape=(2, 2))
    environment.reset()
    environment.step(np.asarray(actions.for_environment(np.array([[[0.5, 1, 2, 9]]], np.float32))))
    np.testing.assert_array_equal(made[0].actions[0], [[0.5, 1], [2, 4]])
    assert made[0].actions[0].dtype == np.float64


def test_several_actions_take_the_spaces_shape_numbers_and_type() -> None:
    made: list[Scripted] = []
    space = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [0, -1]])
    environment = GymnasiumHost(recorded(made, action_space=space), [0], 1)
    environment.reset()
    environment.step(environment.spec.actions.for_environment(np.array([[[1, 2, 3, 4]]], np.int32)))
    np.testing.assert_array_equal(made[0].actions[0], [[1, 3], [3, 3]])
    assert made[0].actions[0].dtype == np.int64


def test_multi_binary_actions_have_two_choices_each() -> None:
    made: list[Scripted] = []
    environment = GymnasiumHost(recorded(made, action_space=spaces.MultiBinary(3)), [0], 1)
    environment.reset()
    environment.step(environment.spec.actions.for_environment(np.array([[[1, 0, 1]]], np.int32)))
    np.testing.assert_array_equal(made[0].actions[0], [1, 0, 1])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5),
        spaces.MultiDiscrete([2, 3]),
        spaces.Dict(z=spaces.Box(-1, 1, (2, 2)), a=spaces.Dict(b=spaces.Discrete(3))),
        spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 255, (2,), np.uint8))),
    ],
)
def test_structured_observations_become_vectors(space: Any) -> None:
    made: list[Scripted] = []
    environment = GymnasiumHost(recorded(made, observation_space=space), [0, 1], 2)
    assert environment.reset().shape == (2, 2, spaces.flatdim(space))
    for time in (1, 2):
        observation = environment.step(np.zeros((2, 2), int)).observation
        assert observation.dtype == np.float32
        space.seed(time)
        expected = spaces.flatten(space, space.sample()).astype(np.float32)
        np.testing.assert_array_equal(observation, np.broadcast_to(expected, observation.shape))


def test_float_observations_of_any_rank_and_images_pass() -> None:
    tall = GymnasiumHost(recorded([], observation_space=spaces.Box(-1, 1, (2, 3, 4, 5))), [0], 1)
    assert tall.reset().shape == (1, 1, 2, 3, 4, 5)
    assert not tall.spec.is_image
    image = GymnasiumHost(recorded([], observation_space=spaces.Box(0, 255, (3, 40, 36), np.uint8)), [0], 1)
    assert image.reset().dtype == np.uint8
    assert image.spec.is_image


def test_success_is_read_from_is_success() -> None:
    environment = GymnasiumHost(recorded([], reports_success=True), [0, 1], 4)
    episode = environment.reset()[..., 0]
    steps = [environment.step(np.zeros((2, 4), int)) for _ in range(4)]
    assert [step.success is None for step in steps] == [True, True, False, True]
    assert steps[2].success.dtype == bool
    np.testing.assert_array_equal(steps[2].success, episode > 0.5)
    assert len(set(steps[2].success.ravel())) == 2


def test_an_environment_that_does_not_report_success_has_not_succeeded() -> None:
    reports = iter([True, False, True, False])
    environment = GymnasiumHost(lambda: Scripted(reports_success=next(reports)), [0, 7], 2)
    episode = environment.reset()[..., 0]
    success = [environment.step(np.zeros((2, 2), int)).success for _ in range(3)][2]
    np.testing.assert_array_equal(success, (episode > 0.5) & [True, False])
    assert success.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation_space": spaces.Dict(a=spaces.Text(3))}, r"observation\['a'\] has the space Text"),
        ({"action_space": spaces.Box(0, 9, (2,), np.int32)}, "actions must be .*, not Box of int32"),
    ],
)
def test_unsupported_spaces_raise_a_one_line_error(options: dict, message: str) -> None:
    with pytest.raises(TrustaxError, match=message) as error:
        GymnasiumHost(recorded([], **options), [0], 1)
    assert str(error.value).startswith("scripted: ")
    assert "\n" not in str(error.value)


def test_a_callable_must_make_a_new_environment_each_time() -> None:
    same = Scripted()
    with pytest.raises(TrustaxError, match="a new environment at each call"):
        GymnasiumHost(lambda: same, [0], 2)
    with pytest.raises(TrustaxError, match=r"must return a gymnasium\.Env, not int"):
        GymnasiumHost(lambda: 3, [0], 2)


class Quitting(Scripted):
    """Calls `sys.exit(0)` in one of its functions."""

    def __init__(self, where: str, **options: Any) -> None:
        super().__init__(**options)
        self.where = where
        self.quit_in("__init__")

    def quit_in(self, function: str) -> None:
        if function == self.where:
            sys.exit(0)

    def reset(self, **arguments: Any) -> tuple[np.ndarray, dict]:
        self.quit_in("reset")
        return super().reset(**arguments)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.quit_in("step")
        return super().step(action)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("__init__", "environment 0 of seed 0: making it raised SystemExit: 0 "),
        ("reset", "environment 0 of seed 0: reset raised SystemExit: 0 "),
        ("step", "environment 0 of seed 0, step 1: step raised SystemExit: 0 "),
    ],
)
def test_an_environment_cannot_end_the_program(where: str, message: str) -> None:
    def quitting() -> gymnasium.Env:
        return Quitting(where)

    def play() -> None:
        environment = GymnasiumHost(quitting, [0, 1], 2)
        environment.reset()
        environment.step(np.zeros((2, 2), int))

    with pytest.raises(TrustaxError, match=f"^quitting, {message}.*; to test it: tx.check\\(quitting\\)$"):
        play()


class Informed(Scripted):
    """Has an info of its own at every reset and step."""

    def __init__(self, at_reset: dict[str, Any], at_step: dict[str, Any]) -> None:
        super().__init__()
        self.infos = at_reset, at_step

    def reset(self, **arguments: Any) -> tuple[np.ndarray, dict]:
        return super().reset(**arguments)[0], self.infos[0]

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        return *super().step(action)[:4], self.infos[1]


@pytest.mark.parametrize("value", [7.0, "odd", None, [1, 2]])
def test_infos_of_other_environments_are_not_read_as_atari_infos(value: Any) -> None:
    info = {"score": value, "over": value, "reward": value}
    environment = GymnasiumHost(lambda: Informed(info, info), [0], 2)
    environment.reset()
    steps = [environment.step(np.zeros((1, 2), int)) for _ in range(4)]
    assert all(step.raw_reward is None and step.game_over is None for step in steps)


def test_success_in_the_info_of_a_reset_does_not_count() -> None:
    environment = GymnasiumHost(lambda: Informed({"is_success": True}, {}), [0], 2)
    environment.reset()
    assert all(environment.step(np.zeros((1, 2), int)).success is None for _ in range(5))


def test_success_counts_in_the_last_step_only() -> None:
    environment = GymnasiumHost(lambda: Informed({"is_success": True}, {"is_success": True}), [0], 1)
    environment.reset()
    success = [bool(environment.step(np.zeros((1, 1), int)).success) for _ in range(5)]
    assert success == [False, False, True, False, False]


def test_success_must_be_one_value() -> None:
    environment = GymnasiumHost(lambda: Informed({}, {"is_success": [True, False]}), [0], 1)
    environment.reset()
    with pytest.raises(TrustaxError, match=r'step 3: step returned info\["is_success"\] = \[True, False\], not a bool'):
        [environment.step(np.zeros((1, 1), int)) for _ in range(3)]
