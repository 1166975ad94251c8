"""What a user keeps of a run: it predicts, and comes back from disk the same."""

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import trustax as tx
from trustax.envs.gymnasium_spaces import spec_of
from trustax.envs.jax.pendulum import Pendulum
from trustax.evaluation import _Tally, evaluate_all
from trustax.networks import Architecture
from trustax.storage import pytree as checkpoint
from trustax.storage.manifest import CheckpointError
from trustax.storage.specs import spec_from_json
from trustax.types import TimeStep

SMALL: dict[str, Any] = {"num_envs": 2, "horizon": 64, "total_timesteps": 256, "quiet": True}


@lru_cache
def trained(env: Any, kind: type = tx.MCPO, **settings: Any) -> tx.Result:
    return tx.train(kind(num_epochs=1, num_minibatches=4, hidden_sizes=(8,)), env, **SMALL | settings)


@pytest.mark.parametrize(
    "damage",
    [
        {"hidden_sizes": ["a"]},
        {"hidden_sizes": [-4]},
        {"hidden_sizes": [4.5]},
        {"network": "os.system"},
        {"network": 1},
        {"activation": "softmax"},
        {"layer_norm": "yes"},
        {"hidden_sizes": 8},
        {"env_id": ["CartPole-v1"]},
        {"spec": {"observation_shape": ["x"], "actions": {"count": 2, "start": 0}, "observation_dtype": "float32"}},
        {"spec": {"observation_shape": [3], "actions": {"count": "2", "start": 0}, "observation_dtype": "float32"}},
        {"spec": {"observation_shape": [3], "actions": {"counts": [], "starts": []}, "observation_dtype": "float32"}},
        {"spec": {"observation_shape": [3], "actions": {"count": 2, "start": 0}, "observation_dtype": "foo"}},
    ],
)
def test_a_header_that_describes_no_agent_is_a_damaged_file(damage: dict[str, Any], tmp_path: Path) -> None:
    spec = {"observation_shape": [3], "actions": {"count": 2, "start": 0}, "observation_dtype": "float32"}
    header = {"kind": "agent", "spec": spec, "hidden_sizes": [8], "normalized": False}
    checkpoint.save(tmp_path / "crafted", {"policy": np.zeros(3)}, header | damage)
    with pytest.raises(CheckpointError, match="holds no agent"):
        tx.load(tmp_path / "crafted")


def test_load_reads_both_an_agent_and_a_run(tmp_path: Path) -> None:
    result = tx.train(tx.PPO(num_minibatches=4), "CartPole-v1", run_dir=tmp_path / "run", **SMALL)
    result.agent().save(tmp_path / "one.agent")
    loaded = [tx.load(tmp_path / "run"), tx.load(tmp_path / "one.agent")]
    for agent in loaded:
        np.testing.assert_array_equal(agent.policy.parameters, result.agent().policy.parameters)


def test_an_agent_whose_save_was_killed_between_its_renames_is_loaded(tmp_path: Path) -> None:
    agent = trained("Pendulum-v1").agent()
    agent.save(tmp_path / "best.agent")
    (tmp_path / "best.agent").rename(tmp_path / ".best.agent.old")
    loaded = tx.load(tmp_path / "best.agent")
    np.testing.assert_array_equal(loaded.policy.parameters, agent.policy.parameters)


def test_a_saved_agent_predicts_the_same(tmp_path: Path) -> None:
    agent = trained("Pendulum-v1").agent()
    agent.save(tmp_path / "pendulum.agent")
    observations = np.random.default_rng(0).normal(size=(50, 3))
    for deterministic in (True, False):
        kept, read = tx.Agent(agent.policy, agent.statistics), tx.load(tmp_path / "pendulum.agent")
        expected, _ = kept.predict(observations, deterministic=deterministic)
        np.testing.assert_array_equal(read.predict(observations, deterministic=deterministic)[0], expected)


@pytest.mark.parametrize("shared", [False, True])
def test_an_agent_without_its_critic_predicts_the_same(shared: bool, tmp_path: Path) -> None:
    spec = tx.EnvSpec((3,), tx.BoxActions((-1.0,), (1.0,)))
    architecture = Architecture(spec, (8,), shared_torso=shared, initial_log_std=-1.0, initial_mean_scale=0.5)
    agent = tx.Agent(architecture.init(jax.random.key(0)))
    agent.save(tmp_path / "small", with_critic=False)
    loaded = tx.load(tmp_path / "small")
    assert loaded.policy.architecture == architecture
    observations = np.random.default_rng(0).normal(size=(5, 3))
    mode, _ = agent.predict(observations, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], mode)
    assert not loaded.policy(jax.numpy.zeros(3))[1]
    stored = checkpoint.load(tmp_path / "small", {"policy": loaded.policy.without_critic(), "statistics": None})
    assert stored["policy"].parameters.size == loaded.policy.parameters.size - (9 if shared else 41)
    loaded.save(tmp_path / "again")
    assert not tx.load(tmp_path / "again").has_critic


def test_the_agents_of_a_run_are_read_from_its_folder(tmp_path: Path) -> None:
    result = trained("CartPole-v1", num_seeds=2, run_dir=tmp_path / "run")
    for policy in ("policy", "virtual"):
        kept, read = result.agent(1, policy), tx.load(tmp_path / "run", 1, policy)
        np.testing.assert_array_equal(kept.policy.parameters, read.policy.parameters)
    assert not np.array_equal(result.agent(0).policy.parameters, result.agent(1).policy.parameters)


def test_one_observation_gives_one_action_and_a_batch_gives_a_batch() -> None:
    agent = trained("Pendulum-v1").agent()
    assert agent.predict(np.zeros(3))[0].shape == (1,)
    assert agent.predict(np.zeros((5, 3)))[0].shape == (5, 1)
    assert agent.predict(np.zeros(3), state="kept")[1] == "kept"


@pytest.mark.parametrize("deterministic", [True, False])
def test_actions_may_be_changed(deterministic: bool) -> None:
    for env, size in (("Pendulum-v1", 3), ("CartPole-v1", 4)):
        for observation in (np.zeros(size), np.zeros((5, size))):
            action, _ = trained(env).agent().predict(observation, deterministic=deterministic)
            action[...] = 0


def test_an_image_is_given_in_whole_numbers() -> None:
    spec = tx.EnvSpec((36, 36, 1), tx.DiscreteActions(4), "uint8")
    agent = tx.Agent(Architecture(spec).init(jax.random.key(0)))
    image = np.random.default_rng(0).integers(0, 256, (36, 36, 1), np.uint8)
    expected, _ = agent.predict(image, deterministic=True)
    for same in (image.astype(np.float64), image.astype(np.int64), image.tolist()):
        assert agent.predict(same, deterministic=True)[0] == expected
    for other in (image / np.float32(255), image.astype(int) - 1, np.full(image.shape, np.nan)):
        with pytest.raises(tx.TrustaxError, match=r"whole numbers from 0 to 255, not (float|int)\d+ from .*; pass the"):
            agent.predict(other)


def test_box_actions_are_clipped_to_their_bounds_and_shape() -> None:
    spec = tx.EnvSpec((3,), tx.BoxActions((-0.1,) * 4, (0.1,) * 4, box_shape=(2, 2)))
    agent = tx.Agent(Architecture(spec).init(jax.random.key(0)))
    actions, _ = agent.predict(np.zeros((100, 3)))
    assert actions.shape == (100, 2, 2)
    # In float32 0.1 is more than 0.1, which environments of float64 refuse.
    assert np.abs(actions).max() == np.nextafter(np.float32(0.1), np.float32(0)) < 0.1


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [0, -1]]), spaces.MultiBinary(3)]
)
def test_several_actions_match_the_space_of_the_environment(space: Any) -> None:
    agent = tx.Agent(Architecture(spec_of("mine", spaces.Box(-1, 1, (3,)), space)).init(jax.random.key(0)))
    actions, _ = agent.predict(np.zeros((100, 3)))
    assert all(space.contains(action) for action in actions)
    assert len(np.unique(actions, axis=0)) > 4
    assert space.contains(agent.predict(np.zeros(3), deterministic=True)[0])


class Rooms(gymnasium.Env):
    """Go to the room that is shown, with the lamp on; observations are dictionaries, actions two choices."""

    observation_space = spaces.Dict(goal=spaces.Box(-1, 1, (3,)), room=spaces.Discrete(3))
    action_space = spaces.MultiDiscrete([3, 2])

    def _observe(self) -> dict[str, Any]:
        return {"goal": np.eye(3, dtype=np.float32)[self.goal], "room": self.room}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.goal, self.room, self.time = int(self.np_random.integers(3)), 0, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        self.room, lamp = map(int, action)
        self.time += 1
        success = self.room == self.goal and lamp == 1
        return self._observe(), float(success), False, self.time == 4, {"is_success": success}


def test_an_environment_of_dictionaries_and_several_actions_from_training_to_a_loaded_agent(tmp_path: Path) -> None:
    agent = trained(Rooms).agent()
    assert len(tx.evaluate(agent, Rooms, num_episodes=3).returns) == 3
    agent.save(tmp_path / "rooms.agent")
    loaded, env = tx.load(tmp_path / "rooms.agent"), Rooms()
    assert loaded.spec == agent.spec
    observation, _ = env.reset(seed=0)
    action, _ = loaded.predict(observation, deterministic=True)
    assert env.action_space.contains(action)
    flat = spaces.flatten(env.observation_space, observation)
    np.testing.assert_array_equal(loaded.predict(flat, deterministic=True)[0], action)
    batch = {"goal": np.eye(3), "room": np.arange(3)}
    rows = [loaded.predict({"goal": np.eye(3)[i], "room": i}, deterministic=True)[0] for i in range(3)]
    np.testing.assert_array_equal(loaded.predict(batch, deterministic=True)[0], rows)
    one_by_one = [{"goal": np.eye(3)[i], "room": i} for i in range(3)]
    np.testing.assert_array_equal(loaded.predict(one_by_one, deterministic=True)[0], rows)
    with pytest.raises(tx.TrustaxError, match=r"as the environment returns it.*'room' is missing"):
        loaded.predict({"goal": np.zeros(3)})


def test_an_error_explains_how_to_pass_a_dictionary_to_an_agent_of_arrays() -> None:
    with pytest.raises(tx.TrustaxError, match=r"array of shape \(3,\), not a dict; .*FlattenObservation makes one"):
        trained("Pendulum-v1").agent().predict({"angle": 1.0})


def test_a_spec_of_an_older_file_is_read() -> None:
    old = {
        "observation_shape": [3],
        "actions": {"low": [-1.0], "high": [1.0], "box_shape": None},
        "observation_dtype": "float32",
        "discrete": False,
    }
    assert spec_from_json(old) == tx.EnvSpec((3,), tx.BoxActions((-1.0,), (1.0,)))


def test_stochastic_predictions_differ_between_calls_and_repeat_for_a_seed() -> None:
    policy = trained("Pendulum-v1").agent().policy
    one, other = tx.Agent(policy, seed=1), tx.Agent(policy, seed=1)
    first, second = one.predict(np.zeros(3))[0], one.predict(np.zeros(3))[0]
    assert first != second
    assert first == other.predict(np.zeros(3))[0]


def test_an_observation_of_another_shape_is_refused() -> None:
    agent = trained("Pendulum-v1").agent()
    with pytest.raises(tx.TrustaxError, match=r"the shape \(3,\), and a batch the shape \(n, 3\), not \(4,\)"):
        agent.predict(np.zeros(4))
    assert repr(agent).startswith("Agent(auto, observations (3,), normalized, BoxActions with 1 output")


def test_a_run_has_only_its_own_learners_and_policies(tmp_path: Path) -> None:
    result = trained("CartPole-v1", tx.PPO, run_dir=tmp_path / "run")
    with pytest.raises(tx.TrustaxError, match="learner must be between 0 and 0, not 1"):
        result.agent(1)
    with pytest.raises(tx.TrustaxError, match="ppo has no policy called 'virtual'"):
        result.agent(0, "virtual")
    with pytest.raises(tx.TrustaxError, match="holds no agent"):
        tx.load(next((tmp_path / "run" / "checkpoints").iterdir()))


def test_a_user_defined_box_environment_trains_and_evaluates() -> None:
    def make_pendulum() -> gymnasium.Env:
        return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))

    agent = trained(make_pendulum).agent()
    assert tx.evaluate(agent, make_pendulum, num_episodes=2).lengths.tolist() == [200, 200]


@pytest.mark.parametrize("env", ["native:CartPole-v1", "envpool:CartPole-v1", "gymnasium:CartPole-v1"])
def test_every_episode_of_an_evaluation_counts_once(env: str) -> None:
    agent = trained("CartPole-v1").agent()
    result = tx.evaluate(agent, env, num_episodes=5, max_envs=2)
    assert len(result.returns) == 5
    np.testing.assert_array_equal(result.returns, result.lengths)  # CartPole pays 1 a step


class Corridor:
    """Walk left or right until an end of the corridor. All numbers are whole, so that nothing rounds."""

    spec: ClassVar[tx.EnvSpec] = tx.EnvSpec((2,), tx.DiscreteActions(2))
    time_limit: ClassVar[int | None] = 30

    def reset(self, key: Any) -> Any:
        return jax.random.randint(key, (2,), -3, 4)

    def step(self, state: Any, action: Any) -> Any:
        state = state.at[0].add(2 * action - 1)
        return state, state[1].astype(float), abs(state[0]) > 3

    def observe(self, state: Any) -> Any:
        return state.astype(float)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("env", [Corridor(), "gymnasium:CartPole-v1"], ids=["JAX", "Gymnasium"])
def test_agents_evaluated_together_have_the_results_of_each_alone(env: Any, deterministic: bool) -> None:
    def agents() -> list[tx.Agent]:  # new ones: an agent that samples goes on from its last action
        result = trained(env, num_seeds=3)
        return [result.agent(learner) for learner in range(3)]

    # Five environments each, so that two of the three agents play side by side.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trustax.evaluation.MAX_ENVS", 10)
        together = evaluate_all(agents(), env, [7, 8, 7], 6, deterministic, max_envs=5)
    for agent, seed, result in zip(agents(), [7, 8, 7], together, strict=True):
        alone = tx.evaluate(agent, env, 6, deterministic, seed, max_envs=5)
        np.testing.assert_array_equal(result.returns, alone.returns)
        np.testing.assert_array_equal(result.lengths, alone.lengths)
    assert len({tuple(result.returns) for result in together}) > 1


def test_only_an_episode_that_counts_can_be_too_long() -> None:
    def play(*ends: set[int]) -> list[int]:
        """The lengths of four episodes in two environments, two of each, given the steps that end an episode."""
        tally, step = _Tally(num_episodes=4, num_envs=2, max_episode_steps=5), 0
        while not tally.is_complete:
            step += 1
            ended = np.array([step in own for own in ends])
            tally.add(TimeStep(np.zeros(2), np.ones(2), ended, np.zeros(2, bool)))
        return sorted(tally.result().lengths.tolist())

    assert play({1, 3}, {5, 11}) == [1, 1, 5, 5]  # the third episode of the first environment has seven steps
    with pytest.raises(tx.TrustaxError, match="an episode has not ended after 5 steps"):
        play({1, 3}, {5})


def test_an_agent_is_evaluated_on_the_environment_that_trained_it(tmp_path: Path) -> None:
    agent = trained("CartPole-v1").agent()
    agent.save(tmp_path / "one.agent")
    loaded = tx.load(tmp_path / "one.agent")
    for mine in (agent, loaded, tx.load("zoo:ppo/CartPole-v1")):
        assert mine.env_id == "CartPole-v1"
    expected = tx.evaluate(agent, "CartPole-v1", num_episodes=2)
    np.testing.assert_array_equal(tx.evaluate(loaded, num_episodes=2).returns, expected.returns)
    for env_id, reason in (
        (None, "does not know"),
        ("my_module:Mine-v0", "imports a module"),
        ("Mine", "is not an id"),
    ):
        with pytest.raises(
            tx.TrustaxError, match=rf"^evaluate needs an environment, .* or --env-id CartPole-v1: .*{reason}.*$"
        ):
            tx.evaluate(tx.Agent(agent.policy, env_id=env_id))


def test_an_evaluation_says_what_it_takes_and_ends(tmp_path: Path) -> None:
    result = trained("CartPole-v1")
    with pytest.raises(
        tx.TrustaxError, match=r"evaluate takes an agent, such as result.agent\(learner=0\), not a Result"
    ):
        tx.evaluate(result)  # type: ignore[arg-type]
    with pytest.raises(tx.TrustaxError, match="no argument 'n_eval_episodes'; here it is called num_episodes"):
        tx.evaluate(result.agent(), n_eval_episodes=3)
    with pytest.raises(
        tx.TrustaxError, match="an episode has not ended after 5 steps; give the environment a time limit"
    ):
        tx.evaluate(result.agent(), max_episode_steps=5)
    with pytest.raises(tx.TrustaxError, match="max_envs must be at least 1, not 0"):
        tx.evaluate(result.agent(), max_envs=0)
    with pytest.raises(tx.TrustaxError, match=r"predict takes an observation: observation, info = env.reset\(\)"):
        result.agent().predict((np.zeros(4), {}))
    with pytest.raises(tx.TrustaxError, match="is neither the folder of a run nor that of an agent"):
        tx.load(tmp_path)


def test_an_agent_is_not_evaluated_on_other_observations() -> None:
    with pytest.raises(tx.TrustaxError, match=r"observations of shape \(4,\) .* but Pendulum-v1 has .* \(3,\)"):
        tx.evaluate(trained("CartPole-v1").agent(), "Pendulum-v1")


def test_an_agent_is_not_evaluated_on_other_actions() -> None:
    class FourNumbers(gymnasium.Env[np.ndarray, np.ndarray]):
        observation_space = spaces.Box(-1.0, 1.0, (4,))
        action_space = spaces.Box(-1.0, 1.0, (1,))

    with pytest.raises(tx.TrustaxError, match=r"2 outputs for DiscreteActions .*, but .* 1 outputs for BoxActions"):
        tx.evaluate(trained("CartPole-v1").agent(), FourNumbers)


@pytest.mark.parametrize("env", [lambda: gymnasium.make("Pendulum-v1"), Pendulum()], ids=["function", "object"])
def test_an_error_about_an_environment_shows_its_name(env: Any) -> None:
    with pytest.raises(tx.TrustaxError, match=r", but (<lambda>|Pendulum) has observations"):
        tx.evaluate(trained("CartPole-v1").agent(), env)


def test_every_seed_of_a_run_can_be_evaluated() -> None:
    agent = trained("CartPole-v1").agent()
    assert len(tx.evaluate(agent, num_episodes=2, seed=2**32 - 1).returns) == 2
    for seed in (-1, 2**32):
        with pytest.raises(tx.TrustaxError, match=rf"^seed must be between 0 and 2\*\*32 - 1, not {seed}$"):
            tx.evaluate(agent, seed=seed)


def test_an_action_that_is_one_number_has_no_axis() -> None:
    spec = spec_of("one number", spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-1.0, 1.0, ()))
    agent = tx.Agent(Architecture(spec).init(jax.random.key(0)))
    assert agent.predict(np.zeros(3))[0].shape == ()
    assert agent.predict(np.zeros((5, 3)))[0].shape == (5,)


def test_bounds_may_be_infinite_in_a_file(tmp_path: Path) -> None:
    spec = tx.EnvSpec((3,), tx.BoxActions((-np.inf, 0.0), (np.inf, 0.5)))
    tx.Agent(Architecture(spec).init(jax.random.key(0))).save(tmp_path / "agent")
    assert tx.load(tmp_path / "agent").spec == spec


class SucceedsAtFirst(gymnasium.Env[np.ndarray, int]):
    """Episodes of one step, of which the first alone succeeds, and says so; the others say nothing."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.episodes += 1
        return np.zeros(2, np.float32), 1.0, True, False, {"is_success": True} if self.episodes == 1 else {}


def test_an_episode_that_never_reports_success_has_failed() -> None:
    result = trained(SucceedsAtFirst, total_timesteps=1280)
    rates = [float(record["rollout/success_rate"][0]) for record in result.records]
    assert rates[0] == pytest.approx(2 / 64)  # of each environment one, in 64 steps of which every other resets
    assert rates[2:] == [0.0] * 8
    successes = tx.evaluate(result.agent(), SucceedsAtFirst, num_episodes=6, max_envs=2).successes
    assert successes is not None
    assert successes.sum() == 2
