"""Recorded videos show every step of the episodes; what cannot be recorded raises a one-line error."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from PIL import Image, ImageSequence

from tests.runtime.test_collect import policies_of
from trustax.agent import Agent
from trustax.cli.main import main
from trustax.envs.gymnasium_spaces import spec_of
from trustax.envs.jax import pendulum
from trustax.envs.jax.gridworld import DOOR
from trustax.envs.jax.pendulum import Pendulum, PendulumState
from trustax.envs.jax.unlock import UnlockPickup
from trustax.envs.making import registered
from trustax.envs.vectorize import JAX_ENVS
from trustax.errors import TrustaxError
from trustax.plotting.record import RecordedEpisode, record
from trustax.types import BoxActions, DiscreteActions, EnvSpec


class Counting(gymnasium.Env):
    """Ends after four steps with rewards 1, 2, 3, 4; frames are 700 pixels wide and get brighter with every step."""

    metadata: Any = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.time += 1
        return np.full(1, self.time, np.float32), float(self.time), False, self.time == 4, {}

    def render(self) -> Any:
        return np.full((350, 700, 3), 50 * self.time, np.uint8)


def agent_for(env: gymnasium.Env) -> Agent:
    env.close()
    return random_agent(spec_of("test", env.observation_space, env.action_space))


def random_agent(spec: EnvSpec) -> Agent:
    # Small parameters, so that no action is strongly preferred.
    return Agent(jax.tree.map(lambda leaf: 0.05 * leaf[0], policies_of([0], spec)))


def pictures(path: Path) -> list[np.ndarray]:
    with Image.open(path) as film:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


def test_a_video_shows_every_step_of_every_episode(tmp_path: Path) -> None:
    recording = record(agent_for(Counting()), Counting, tmp_path / "film.gif", num_episodes=2)
    assert [(episode.episode_return, episode.length) for episode in recording.episodes] == [(10.0, 4), (10.0, 4)]
    assert all(episode.finished for episode in recording.episodes)
    assert str(recording).splitlines()[1] == "episode 1  return 10.00, 4 steps"
    shown = pictures(recording.path)
    np.testing.assert_array_equal([frame[0, 0, 0] for frame in shown], [0, 50, 100, 150, 200] * 2)
    assert shown[0].shape == (320, 640, 3)
    with Image.open(recording.path) as film:
        assert film.info["duration"] == 50


def test_a_video_may_end_before_the_episode(tmp_path: Path) -> None:
    recording = record(agent_for(Counting()), Counting, tmp_path / "film.gif", num_episodes=3, max_steps=6)
    assert [(episode.length, episode.finished) for episode in recording.episodes] == [(4, True), (2, False)]
    assert "2 steps, unfinished" in str(recording)
    assert len(pictures(recording.path)) == 5 + 3


def test_a_gif_drops_frames_instead_of_slowing_down(tmp_path: Path) -> None:
    recording = record(agent_for(Counting()), Counting, tmp_path / "film.gif", fps=100)
    assert [frame[0, 0, 0] for frame in pictures(recording.path)] == [0, 100, 200]
    with Image.open(recording.path) as film:
        assert film.info["duration"] == 20


def test_an_mp4_is_written(tmp_path: Path) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    recording = record(agent_for(Counting()), Counting, tmp_path / "film.mp4", fps=10)
    decode = ["-i", str(recording.path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), *decode], capture_output=True, check=True)
    assert b"640x320" in decoded.stderr
    assert b" 10 fps" in decoded.stderr
    shown = np.frombuffer(decoded.stdout, np.uint8).reshape(5, -1).mean(axis=1)
    np.testing.assert_allclose(shown, [0, 50, 100, 150, 200], atol=5)


FAMILIES = {
    "gymnasium:CartPole-v1": "pygame",
    "envpool:Pendulum-v1": "pygame",
    "envpool:LunarLander-v3": "Box2D",
    "gymnasium:MiniGrid-UnlockPickup-v0": "minigrid",
    "envpool:Breakout-v5": "ale_py",
}


@pytest.mark.parametrize("env", FAMILIES)
def test_each_family_is_recorded_in_gymnasium(env: str, tmp_path: Path) -> None:
    pytest.importorskip(FAMILIES[env])
    env_id = env.partition(":")[2]
    agent = agent_for(registered("ALE/Breakout-v5" if "Breakout" in env else env_id))
    recording = record(agent, env, tmp_path / "film.gif", max_steps=60, deterministic=False)
    (episode,) = recording.episodes
    shown = pictures(recording.path)
    # A life in Breakout usually lasts fewer than 60 steps; a game lasts longer.
    assert episode.finished == (episode.length < 60)
    assert episode.finished == (env == "gymnasium:CartPole-v1")
    # The writer merges identical frames: an agent in MiniGrid may stand still, and so may Breakout for a moment.
    assert episode.length // 4 < len(shown) <= episode.length + 1
    assert (shown[0] != shown[-1]).any()


@pytest.mark.parametrize("env", ["CartPole-v1", "native:Pendulum-v1", "MiniGrid-UnlockPickup-v0"])
def test_environments_in_jax_draw_themselves(env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pygame", "minigrid", "minigrid.wrappers"):
        monkeypatch.setitem(sys.modules, module, None)
    definition = JAX_ENVS[env.partition(":")[2] or env]
    recording = record(random_agent(definition.spec), env, tmp_path / "film.gif", max_steps=20, deterministic=False)
    (episode,) = recording.episodes
    shown = pictures(recording.path)
    assert 1 < len(shown) <= episode.length + 1  # the writer merges identical frames
    assert len(np.unique(shown[0].reshape(-1, 3), axis=0)) > 2


def test_a_picture_shows_the_state() -> None:
    def rod(angle: float) -> tuple[np.ndarray, np.ndarray]:
        picture = Pendulum().render(PendulumState(np.float32(angle), np.float32(0)))
        return np.nonzero((picture == pendulum.ROD).all(axis=2))

    rows, columns = rod(0.0)  # upright
    assert rows.min() < 60 < 180 < columns.min() <= columns.max() < 220
    rows, columns = rod(np.pi / 2)  # to the left, as in Gymnasium
    assert columns.min() < 60 < 180 < rows.min() <= rows.max() < 220
    state = UnlockPickup().reset(jax.random.key(0))
    closed = UnlockPickup().render(jax.device_get(state))
    opened = UnlockPickup().render(jax.device_get(state._replace(grid=state.grid & ~(15 << 8))))
    changed = {(x // 32, y // 32) for y, x in zip(*np.nonzero((closed != opened).any(axis=2)), strict=True)}
    assert changed == {tuple(map(int, np.argwhere(np.asarray(state.grid & 15) == DOOR)[0]))}


def test_a_user_defined_jax_environment_is_recorded_if_it_draws_itself(tmp_path: Path) -> None:
    class Undrawn:
        spec = EnvSpec((1,), DiscreteActions(2))
        time_limit = 3

        def reset(self, key: Any) -> Any:
            return jax.numpy.zeros((), np.int32)

        def step(self, state: Any, action: Any) -> Any:
            return state + 1, jax.numpy.float32(state), state > 5

        def observe(self, state: Any) -> Any:
            return state[None].astype(np.float32)

    class Drawn(Undrawn):
        def render(self, state: Any) -> np.ndarray:
            return np.full((20, 30, 3), 50 * int(state), np.uint8)

    recording = record(random_agent(Drawn.spec), Drawn(), tmp_path / "film.gif")
    assert recording.episodes == [RecordedEpisode(3.0, 3, True)]
    assert [frame[0, 0, 0] for frame in pictures(recording.path)] == [0, 50, 100, 150]
    recording.path.unlink()
    assert "Undrawn cannot be recorded: it needs a method render(state)" in refusal(tmp_path, Undrawn())


def test_the_seed_determines_the_video(tmp_path: Path) -> None:
    # Bounds that another engine rounded differently are accepted.
    spec = EnvSpec((3,), BoxActions((-2.000001,), (2.000001,)))
    agent = random_agent(spec)
    one, same, other = (record(agent, "Pendulum-v1", tmp_path / "film.gif", 1, 5, seed=seed) for seed in (1, 1, 2))
    assert one.episodes == same.episodes
    assert one.episodes != other.episodes


def refusal(tmp_path: Path, env: Any, name: str = "film.gif", **options: Any) -> str:
    agent = random_agent(EnvSpec((1,), DiscreteActions(2)))
    with pytest.raises(TrustaxError) as error:
        record(agent, env, tmp_path / name, **options)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
    return str(error.value)


class Blind(Counting):
    metadata: Any = {}

    def render(self) -> Any:
        return None


class Broken(Counting):
    def render(self) -> Any:
        raise RuntimeError("no\nEGL here")


class Disconnected(Counting):
    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        raise BrokenPipeError("the simulator is gone")


@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_an_error_of_the_environment_is_not_one_of_the_file(tmp_path: Path, name: str) -> None:
    if name == "film.mp4":
        pytest.importorskip("imageio_ffmpeg")
    message = r"^Disconnected cannot be recorded: BrokenPipeError: the simulator is gone \(test_record.py, line \d+\)$"
    with pytest.raises(TrustaxError, match=message):
        record(agent_for(Counting()), Disconnected, tmp_path / name)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "film.gif").mkdir()
    with pytest.raises(TrustaxError, match=r"film.gif cannot be written: Is a directory$"):
        record(agent_for(Counting()), Counting, tmp_path / "film.gif")


def test_a_recording_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'must create the environment with render_mode="rgb_array"' in refusal(tmp_path, lambda: Counting(None))
    assert "Blind cannot be recorded: it renders NoneType, not a picture" in refusal(tmp_path, Blind)
    assert "the agent has observations of shape (1,)" in refusal(tmp_path, "CartPole-v1")
    assert "doesn't exist" in refusal(tmp_path, "gymnax:Breakout-MinAtar")
    assert "a recording is a .gif or an .mp4, not 'film.avi'" in refusal(tmp_path, Counting, "film.avi")
    assert "there is no folder" in refusal(tmp_path, Counting, "nowhere/film.gif")
    assert "num_episodes and max_steps must be at least 1" in refusal(tmp_path, Counting, num_episodes=0)
    monkeypatch.setitem(os.environ, "MUJOCO_GL", "osmesa")
    assert "Broken cannot be recorded: no EGL here (MUJOCO_GL is osmesa; egl needs" in refusal(tmp_path, Broken)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert 'pip install "trustax[record]"' in refusal(tmp_path, Counting, "film.mp4")


def test_an_environment_without_render_modes_is_refused(tmp_path: Path) -> None:
    gymnasium.register("TrustaxUndrawn-v0", lambda: Counting())
    try:
        assert "TrustaxUndrawn-v0 cannot be recorded" in refusal(tmp_path, "TrustaxUndrawn-v0")
    finally:
        del gymnasium.registry["TrustaxUndrawn-v0"]


def cli(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments.split())
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


def test_a_run_is_recorded_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    quick = "--num-envs 2 --horizon 16 --total-timesteps 32 --num-minibatches 2 --num-epochs 1 --hidden-sizes 8 --quiet"
    assert cli(f"train ppo --env-id native:CartPole-v1 --num-seeds 2 --run-dir {folder} {quick}", capsys)[0] == 0

    code, out, _ = cli(f"record {folder} --learner 1 --num-episodes 2 --seed 3", capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"recording  {folder / 'recording.gif'}"
    assert [line.split("  ")[0] for line in lines[1:]] == ["episode 1", "episode 2"]
    assert len(pictures(folder / "recording.gif")) > 10

    film = tmp_path / "film.gif"
    code, out, _ = cli(f"record {folder} --output {film} --max-steps 5 --stochastic --fps 25", capsys)
    assert (code, film.exists(), "5 steps, unfinished" in out) == (0, True, True)
    for options, message in {
        "--learner 2": "learner must be between 0 and 1, not 2",
        "--output film.avi": "a recording is a .gif or an .mp4",
        "--env-id Pendulum-v1": "the agent has observations of shape (4,) and 2 outputs for DiscreteActions",
    }.items():
        code, _, err = cli(f"record {folder} {options}", capsys)
        assert code == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1

    definition = folder / "run.json"
    definition.write_text(definition.read_text().replace('"native:CartPole-v1"', '"gymnasium:os:CartPole-v1"'))
    code, _, err = cli(f"record {folder}", capsys)
    assert code == 2
    assert "imports a module; to allow this, add --env-id" in err
