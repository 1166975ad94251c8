"""A run folder that is made without training, in a second: its arrays are noise of the right shapes."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import trustax as tx
from trustax.runtime.episodes import EpisodeWindow
from trustax.runtime.state import RunState, template_of
from trustax.storage.journal import Journal
from trustax.storage.run_directory import RunDirectory
from trustax.types import DiscreteActions, EnvSpec

RUN = tx.Run(
    algorithm=tx.PPO(hidden_sizes=(4,), num_minibatches=2),
    env_id="CartPole-v1",
    total_timesteps=64,
    num_envs=2,
    horizon=4,
    num_seeds=2,
)


class StillEnvironment:
    """An environment that can be saved and is never stepped."""

    spec = EnvSpec((4,), DiscreteActions(2))
    resumable = True
    on_cpu = False

    def reset(self, start: int = 0) -> Any:
        raise NotImplementedError

    def draw_starts(self, state: Any, num_steps: int) -> Any:
        raise NotImplementedError

    def step(self, state: Any, action: Any, starts: Any = None) -> Any:
        raise NotImplementedError

    def close(self) -> None: ...


def state_at(run: tx.Run, iteration: int) -> RunState:
    """The state of a run after an iteration, filled with numbers that depend on the iteration."""
    learner, observer = template_of(run, StillEnvironment.spec)
    generator = np.random.default_rng(iteration)

    def noise(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        return jnp.asarray(generator.normal(size=leaf.shape).astype(leaf.dtype))

    filled = jax.tree.map(noise, (learner, observer, _episodes(run)))
    keys = jax.random.split(jax.random.key(0), run.num_seeds)
    return RunState(*filled, None, keys, jnp.int32(iteration))


def _episodes(run: tx.Run) -> Any:
    shape = (run.num_seeds,)
    return jax.eval_shape(lambda: jax.tree.map(lambda x: jnp.broadcast_to(x, shape + x.shape), EpisodeWindow.init()))


def make_run(folder: Path, saved: tuple[int, ...] = (2, 4), run: tx.Run = RUN) -> RunState:
    """Write the folder of a run that was saved after these iterations; return its last state."""
    directory = RunDirectory(folder, run, StillEnvironment(), checkpoint_seconds=0.0)
    directory.open(resume=False)
    state = state_at(run, 0)
    with Journal(folder) as journal:
        for iteration in range(1, saved[-1] + 1):
            steps = iteration * run.batch_size
            journal.record(
                {
                    "time/iterations": iteration,
                    "time/total_timesteps": steps,
                    "time/fps": 100.0,
                    "rollout/ep_rew_mean": [float(steps), None],
                }
            )
            if iteration in saved:
                state = state_at(run, iteration)
                directory.save(state)
    return state


def resumed(folder: Path, run: tx.Run = RUN, template: RunState | None = None) -> RunState:
    """Open the folder as a resumed run does, and restore its state."""
    directory = RunDirectory(folder, run, StillEnvironment(), checkpoint_seconds=0.0)
    directory.open(resume=True)
    return directory.restore(state_at(run, 0) if template is None else template)
