"""Records videos of an agent.

Environments written in JAX are recorded if they draw their states (`trustax.envs.jax_env.DrawnJaxEnv`), as those of
Trustax do. All others are recorded in Gymnasium's environment of the same name, whatever engine the agent was trained
on, with the same observation wrappers as in training.
"""

import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from trustax.agent import Agent
from trustax.envs.atari import GAME_OVER, SCORE, gymnasium_id, is_atari
from trustax.envs.base import environment_seed
from trustax.envs.engines import Environment, bare_id, engine_of, env_id_of, is_known
from trustax.envs.errors import describe
from trustax.envs.gymnasium_spaces import spec_of, to_batch
from trustax.envs.jax_env import DrawnJaxEnv, JaxEnv
from trustax.envs.making import registered
from trustax.envs.registry import NATIVE
from trustax.envs.vectorize import JAX_ENVS
from trustax.errors import TrustaxError
from trustax.evaluation import EVALUATION_SEED
from trustax.plotting.jax_film import JaxFilm
from trustax.plotting.video import writer_for

MAX_SIDE = 640
"""Larger frames are scaled down to this many pixels."""
DEFAULT_FPS = 30
"""Frames per second of an environment whose metadata has no `render_fps`."""


@dataclass(frozen=True)
class RecordedEpisode:
    """Raw return and length of an episode; `finished` is False if the video ends before the episode does."""

    episode_return: float
    length: int
    finished: bool

    def __str__(self) -> str:
        return f"return {self.episode_return:.2f}, {self.length} steps" + ("" if self.finished else ", unfinished")


@dataclass(frozen=True)
class Recording:
    """The video file and the episodes in it."""

    path: Path
    episodes: list[RecordedEpisode]

    def __str__(self) -> str:
        lines = [f"episode {number}  {episode}" for number, episode in enumerate(self.episodes, start=1)]
        return "\n".join([f"recording  {self.path}", *lines])


def record(
    agent: Agent,
    env: Environment,
    path: str | Path,
    num_episodes: int = 1,
    max_steps: int = 3_000,
    deterministic: bool = True,
    seed: int = 0,
    fps: float | int | None = None,
    quiet: bool = False,
) -> Recording:
    """Play episodes, at most `max_steps` steps in total, and write the frames to a .gif or .mp4 file.

    The video runs at `fps` frames per second; the default is the environment's own frame rate.
    """
    path = Path(path)
    if min(num_episodes, max_steps) < 1 or (fps is not None and fps <= 0):
        raise TrustaxError(
            f"num_episodes and max_steps must be at least 1 and fps more than 0, not {num_episodes}, {max_steps}, {fps}"
        )
    write = writer_for(path)
    _render_headless()
    name = env_id_of(env)
    environment = _make_renderable(name, env)
    try:
        agent.require_fit(spec_of(name, environment.observation_space, environment.action_space), name)
        episodes: list[RecordedEpisode] = []
        frames = _frames(agent, environment, num_episodes, max_steps, deterministic, seed, episodes)
        with _progress(quiet) as progress:
            images = progress.track(_to_images(frames, name), description=f"recording {name}")
            rate = float(fps or environment.metadata.get("render_fps") or DEFAULT_FPS)
            try:
                write(path, images, rate)
            except OSError as error:
                raise TrustaxError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        environment.close()
    return Recording(path, episodes)


def _frames(
    agent: Agent,
    env: gymnasium.Env,
    num_episodes: int,
    max_steps: int,
    deterministic: bool,
    seed: int,
    episodes: list[RecordedEpisode],
) -> Iterator[Any]:
    """Yield the frame of every step, and append each episode to `episodes` when it ends."""
    steps_left = max_steps
    for number in range(num_episodes):
        observation, _ = env.reset(seed=environment_seed(seed + EVALUATION_SEED, 0) if number == 0 else None)
        yield env.render()
        earned, length, over = 0.0, 0, False
        while steps_left and not over:
            action, _ = agent.predict(observation, deterministic=deterministic)
            chosen = to_batch(action, env.action_space, env.action_space.dtype)[0]
            observation, reward, terminated, truncated, info = env.step(chosen)
            ended = terminated or truncated
            # In Atari, losing a life ends an episode for training, but not the game.
            over, score = (info[GAME_OVER], info[SCORE]) if SCORE in info else (ended, reward)
            earned, length, steps_left = earned + float(score), length + 1, steps_left - 1
            yield env.render()
            if ended and not over:
                observation, _ = env.reset()
        episodes.append(RecordedEpisode(earned, length, bool(over)))
        if not steps_left:
            return


def _make_renderable(name: str, env: Environment) -> gymnasium.Env:
    """Make one environment that renders to arrays."""
    definition = _jax_definition(env)
    if isinstance(definition, DrawnJaxEnv):
        return JaxFilm(definition)
    if isinstance(definition, JaxEnv):
        raise TrustaxError(f"{name} cannot be recorded: it needs a method render(state) that returns a picture")
    if not isinstance(env, str):
        made = cast(Callable[[], gymnasium.Env], env)()
        if made.render_mode != "rgb_array":
            raise TrustaxError(
                f'{name} cannot be recorded: it must create the environment with render_mode="rgb_array"'
            )
        return made
    env_id = bare_id(env)
    with warnings.catch_warnings(), _one_line_errors(name):
        warnings.simplefilter("ignore")  # Gymnasium's warnings about render modes; `_to_images` raises instead
        return registered(
            gymnasium_id(env_id) if is_atari(env_id) else env_id, render_mode="rgb_array", disable_env_checker=True
        )


def _jax_definition(env: Environment) -> JaxEnv | None:
    """The environment in JAX that an id or an object stands for; None if it is not in JAX or from another package."""
    if not isinstance(env, str):
        return env if isinstance(env, JaxEnv) and not isinstance(env, type) else None
    is_native = is_known(env) and engine_of(env) == NATIVE.name
    return JAX_ENVS[bare_id(env)] if is_native else None


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """Turn any rendering error (OpenGL, pygame, no render method) into a one-line `TrustaxError`."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = f" (MUJOCO_GL is {os.environ.get('MUJOCO_GL')}; egl needs libegl1, osmesa needs libosmesa6)"
        is_opengl = re.search(r"GL\b|\be?gl[A-Z]", reason)
        raise TrustaxError(f"{name} cannot be recorded: {reason}{hint if is_opengl else ''}") from None


def _to_images(frames: Iterator[Any], name: str) -> Iterator[Image.Image]:
    """Convert frames to images of at most `MAX_SIDE` pixels a side."""
    with _one_line_errors(name):
        first = next(frames)
    try:
        for frame in itertools.chain([first], frames):
            if not isinstance(frame, np.ndarray):
                raise TrustaxError(f"{name} cannot be recorded: it renders {type(frame).__name__}, not a picture")
            image = Image.fromarray(frame)
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            yield image
    except OSError as error:  # of the environment; `record` would take it for one of the writer
        raise TrustaxError(f"{name} cannot be recorded: {describe(error)}") from error


def _render_headless() -> None:
    """Without a display, let pygame and MuJoCo render off-screen; existing environment variables take precedence."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        for variable, value in (("SDL_VIDEODRIVER", "dummy"), ("SDL_AUDIODRIVER", "dummy"), ("MUJOCO_GL", "egl")):
            os.environ.setdefault(variable, value)


def _progress(quiet: bool) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", style="bold cyan", markup=False),
        BarColumn(complete_style="cyan", finished_style="green", pulse_style="cyan"),
        TextColumn("{task.completed} frames", style="dim"),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
    )
