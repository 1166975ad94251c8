"""Values of environments that training cannot use: those that are not finite, and those that are too large."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Shaped

from trustax.envs.gymnasium import place_of
from trustax.errors import TrustaxError
from trustax.ops.running_statistics import RunningStatistics
from trustax.run import Run
from trustax.runtime.episodes import FinishedEpisodes
from trustax.types import Rollout, TimeStep

LARGEST = 1e15
"""The running statistics sum squares in float32, whose largest number is 3e38."""


def require_usable_step(run: Run, timestep: TimeStep, step: int) -> None:
    """Raise an error if a step of host environments returned a value that training cannot use."""
    require_usable(run, "observation", timestep.observation, f", step {step}")
    require_usable(run, "reward", timestep.reward, f", step {step}")
    if timestep.raw_reward is not None:
        require_usable(run, "reward", timestep.raw_reward, f", step {step}")


def require_usable(run: Run, field: str, values: Shaped[np.ndarray, "seed env ..."], when: str) -> None:
    """Raise an error that names the environment, the step and the field if a value cannot be used."""
    if values.dtype == np.uint8 or np.abs(values).max() <= LARGEST:  # false for NaN
        return
    seed, env, *entry = np.argwhere(~(np.abs(values) <= LARGEST))[0].tolist()
    place = place_of(seed * values.shape[1] + env, run.seeds, values.shape[1])
    name = f"{field}{entry or ''}"
    raise TrustaxError(f"{run.env_id}, {place}{when}: {name} is {_explain(values[(seed, env, *entry)])}")


def _explain(value: Any) -> str:
    if np.isfinite(value):
        return f"{value:g}, which is too large; scale it to the range ±{LARGEST:g}"
    return f"{value:g}, which is not finite" + ("" if np.isnan(value) else " or does not fit float32")


def are_usable(
    rollout: Rollout, finished: FinishedEpisodes, statistics: RunningStatistics | None
) -> dict[str, Bool[Array, ""]]:
    """Whether all observations and all rewards of one learner's rollout can be used, inside a compiled program.

    The rollout is normalized, so one bad observation spoils the statistics, and with them all observations. The raw
    returns of the episodes show every bad reward.
    """
    observations = jnp.all(jnp.isfinite(rollout.observation))
    if statistics is not None:
        observations &= jnp.all(jnp.isfinite(statistics.variance)) & jnp.all(jnp.isfinite(statistics.mean))
    returns = jnp.all(jnp.abs(finished.episode_return) <= LARGEST)
    return {"observation": observations, "reward": returns & jnp.all(jnp.isfinite(rollout.reward))}


def describe_unusable(run: Run, field: str, iteration: int, rollout: Rollout, finished: FinishedEpisodes) -> str:
    """Where a compiled rollout has its first bad value, as far as it can be known after the normalization."""
    if field == "reward":
        values = np.asarray(finished.episode_return)
    else:
        values = np.asarray(rollout.observation).astype(np.float32)[:, 1:]
    bad = ~(np.abs(values) <= LARGEST).reshape(*values.shape[:3], -1).all(axis=3)  # seed time env
    if not bad.any():
        return f"{run.env_id}, iteration {iteration}: the {field} became too large for the running statistics"
    step = int(np.argwhere(bad.any(axis=(0, 2)))[0, 0])
    seed, env = np.argwhere(bad[:, step])[0].tolist()
    place = place_of(seed * run.num_envs + env, run.seeds, run.num_envs)
    if bad[seed, step].all() and run.num_envs > 1:
        place = f"one of the {run.num_envs} environments"
    entries = values[seed, step, env].ravel()
    value = entries[~(np.abs(entries) <= LARGEST)][0]
    what = _explain(value)
    if field == "reward" and np.isfinite(value):
        field = "return of the episode"
    return f"{run.env_id}, {place}, step {(iteration - 1) * run.horizon + step + 1}: {field} is {what}"
