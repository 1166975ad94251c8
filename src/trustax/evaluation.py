"""Evaluate agents: returns of complete episodes, in environments that they are not trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trustax.agent import Agent
from trustax.envs import Environment, make
from trustax.envs.engines import env_id_of, imports_module, is_known, is_written_in_jax
from trustax.errors import TrustaxError, refuse_unknown
from trustax.settings.kinds import fitting
from trustax.types import TimeStep

EVALUATION_SEED = 10_000
"""Added to the seed, so that evaluation does not repeat the first episodes of training."""
MAX_ENVS = 64
"""The number of environments in JAX that several agents may have together; with more, the agents take turns."""

ARGUMENTS = ("env", "num_episodes", "deterministic", "seed", "max_envs", "max_episode_steps")
"""The arguments of `evaluate` after the agent."""


class EvaluationStopped(Exception):  # noqa: N818
    """An evaluation was stopped before its end."""


@dataclass(frozen=True)
class EvaluationResult:
    """The return and length of every episode; returns are sums of raw rewards."""

    returns: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray | None = None
    """whether each episode reached its goal; None if the environment has no goal"""

    def __str__(self) -> str:
        success = "" if self.successes is None else f", success rate {self.successes.mean():.2f}"
        return (
            f"return {self.returns.mean():.2f} ± {self.returns.std():.2f} over {len(self.returns)} episodes "
            f"(mean length {self.lengths.mean():.0f}{success})"
        )


def evaluate(
    agent: Agent,
    env: Environment | None = None,
    num_episodes: int = 10,
    deterministic: bool = True,
    seed: int = 0,
    max_envs: int = 16,
    max_episode_steps: int = 1_000_000,
    **unknown: Any,
) -> EvaluationResult:
    """Run complete episodes and return their returns and lengths.

    Without `env`, the environment is the one that the agent was trained on, if the agent knows its id.
    Every environment runs a fixed number of episodes: taking those that finish first would favor short ones. An episode
    of more than `max_episode_steps` is an error: without a time limit, it may never end.
    """
    refuse_unknown("evaluate", unknown, ARGUMENTS)
    if not isinstance(agent, Agent):
        raise TrustaxError(f"evaluate takes an agent, such as result.agent(learner=0), not a {type(agent).__name__}")
    env = environment_of_agent(agent) if env is None else env
    return evaluate_all([agent], env, [seed], num_episodes, deterministic, max_envs, max_episode_steps)[0]


def evaluate_all(
    agents: Sequence[Agent],
    env: Environment,
    seeds: Sequence[int],
    num_episodes: int = 10,
    deterministic: bool = True,
    max_envs: int = 16,
    max_episode_steps: int = 1_000_000,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[EvaluationResult]:
    """Evaluate several agents, each in environments of its own seed, as `evaluate` does.

    Once `should_stop` returns True, the episodes are not played to their end: `EvaluationStopped` is raised.
    In environments written in JAX they play side by side, so that these are compiled once for all agents and not for
    each. In others they play one after another, since side by side all would step until the last one has ended.
    """
    num_episodes, max_envs = fitting("num_episodes", num_episodes, int), fitting("max_envs", max_envs, int)
    for name, value in (("num_episodes", num_episodes), ("max_envs", max_envs)):
        if value < 1:
            raise TrustaxError(f"{name} must be at least 1, not {value}")
    for seed in seeds:
        if not 0 <= fitting("seed", seed, int) < 2**32:
            raise TrustaxError(f"seed must be between 0 and 2**32 - 1, not {seed}")
    num_envs = min(num_episodes, max_envs)
    size = max(1, MAX_ENVS // num_envs) if is_written_in_jax(env) else 1
    results = list[EvaluationResult]()
    for first in range(0, len(agents), size):
        part = slice(first, first + size)
        tallies = [_Tally(num_episodes, num_envs, max_episode_steps) for _ in agents[part]]
        _play(agents[part], env, seeds[part], num_envs, deterministic, tallies, should_stop)
        results += [tally.result() for tally in tallies]
    return results


def _play(
    agents: Sequence[Agent],
    env: Environment,
    seeds: Sequence[int],
    num_envs: int,
    deterministic: bool,
    tallies: Sequence["_Tally"],
    should_stop: Callable[[], bool],
) -> None:
    """Play until the tally of every agent is complete."""
    environment = make(env, [(int(seed) + EVALUATION_SEED) % 2**32 for seed in seeds], num_envs, compiled=False)
    try:
        for agent in agents:
            agent.require_fit(environment.spec, env_id_of(env))
        observations = environment.reset()
        actions = [
            agent.predict(own, deterministic=deterministic)[0] for agent, own in zip(agents, observations, strict=True)
        ]
        while not all(tally.is_complete for tally in tallies):
            if should_stop():
                raise EvaluationStopped
            timestep = environment.step(np.stack(actions))
            observations = timestep.observation
            for number, (agent, tally) in enumerate(zip(agents, tallies, strict=True)):
                if tally.is_complete:
                    continue  # its environments step on with its last actions
                tally.add(TimeStep(*(None if field is None else field[number] for field in timestep)))
                actions[number], _ = agent.predict(observations[number], deterministic=deterministic)
    finally:
        environment.close()


class _Tally:
    """The episodes of one agent. Each of its environments plays a fixed number of them."""

    def __init__(self, num_episodes: int, num_envs: int, max_episode_steps: int) -> None:
        self._episodes_left = np.array(
            [num_episodes // num_envs + (i < num_episodes % num_envs) for i in range(num_envs)]
        )
        self._max_episode_steps = max_episode_steps
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, int)
        self._ended = np.zeros(num_envs, bool)
        self._finished: list[tuple[float, int, bool | None]] = []

    @property
    def is_complete(self) -> bool:
        return not self._episodes_left.any()

    def add(self, timestep: TimeStep) -> None:
        """Count one step of all environments; a step that only resets an environment has no reward and no length."""
        self._return += timestep.reported_reward
        self._length += ~self._ended
        if (self._length * (self._episodes_left > 0)).max() > self._max_episode_steps:
            raise TrustaxError(
                f"an episode has not ended after {self._max_episode_steps:,} steps; give the environment a time limit "
                "(gymnasium.wrappers.TimeLimit), or raise max_episode_steps"
            )
        self._ended = timestep.ended
        for i in np.flatnonzero(timestep.reported_end):
            if self._episodes_left[i]:
                success = None if timestep.success is None else bool(timestep.success[i])
                self._finished.append((float(self._return[i]), int(self._length[i]), success))
                self._episodes_left[i] -= 1
            self._return[i], self._length[i] = 0.0, 0

    def result(self) -> EvaluationResult:
        returns, lengths, successes = zip(*self._finished, strict=True)
        # Some environments report success only when it is true.
        reported = any(success is not None for success in successes)
        return EvaluationResult(np.array(returns), np.array(lengths), np.array(successes, bool) if reported else None)


def environment_of_agent(agent: Agent) -> str:
    """The id of the environment that trained the agent; an id in a file must not cause the import of a module."""
    env_id = agent.env_id
    if env_id is None:
        reason = "the agent does not know which one it was trained on"
    elif imports_module(env_id):
        reason = f"the agent was trained on {env_id!r}, which imports a module"
    elif not is_known(env_id):
        reason = f"the agent was trained on {env_id!r}, which is not an id that can be made"
    else:
        return env_id
    example = "tx.evaluate(agent, 'CartPole-v1') or --env-id CartPole-v1"
    raise TrustaxError(f"evaluate needs an environment, for example {example}: {reason}")
