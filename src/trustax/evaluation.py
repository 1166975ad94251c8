"""Evaluate an agent: returns of complete episodes, in environments that it is not trained on."""

from dataclasses import dataclass

import numpy as np

from trustax.agent import Agent
from trustax.envs import Environment, make
from trustax.envs.engines import env_id_of, imports_module, is_known
from trustax.errors import TrustaxError

EVALUATION_SEED = 10_000
"""Added to the seed, so that evaluation does not repeat the first episodes of training."""


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
) -> EvaluationResult:
    """Run complete episodes and return their returns and lengths.

    Without `env`, the environment is the one that the agent was trained on, if the agent knows its id.
    Every environment runs a fixed number of episodes: taking those that finish first would favor short ones. An episode
    of more than `max_episode_steps` is an error: without a time limit, it may never end.
    """
    if not isinstance(agent, Agent):
        raise TrustaxError(f"evaluate takes an agent, such as result.agent(learner=0), not a {type(agent).__name__}")
    env = environment_of_agent(agent) if env is None else env
    if num_episodes < 1:
        raise TrustaxError(f"num_episodes must be at least 1, not {num_episodes}")
    if not 0 <= seed < 2**32:
        raise TrustaxError(f"seed must be between 0 and 2**32 - 1, not {seed}")
    name = env_id_of(env)
    num_envs = min(num_episodes, max_envs)
    episodes_left = np.array([num_episodes // num_envs + (i < num_episodes % num_envs) for i in range(num_envs)])
    environment = make(env, [(int(seed) + EVALUATION_SEED) % 2**32], num_envs, compiled=False)
    try:
        agent.require_fit(environment.spec, name)
        observation = environment.reset()[0]
        episode_return, length, ended = np.zeros(num_envs), np.zeros(num_envs, int), np.zeros(num_envs, bool)
        finished: list[tuple[float, int, bool | None]] = []
        while episodes_left.any():
            action, _ = agent.predict(observation, deterministic=deterministic)
            timestep = environment.step(action[None])
            observation = timestep.observation[0]
            reward = timestep.reward if timestep.raw_reward is None else timestep.raw_reward
            episode_return = episode_return + reward[0]
            length = length + ~ended
            if length.max() > max_episode_steps:
                raise TrustaxError(
                    f"an episode has not ended after {max_episode_steps:,} steps; give the environment a time limit "
                    "(gymnasium.wrappers.TimeLimit), or raise max_episode_steps"
                )
            ended = (timestep.terminated | timestep.truncated)[0]
            game_over = ended if timestep.game_over is None else timestep.game_over[0]
            for i in np.flatnonzero(game_over):
                if episodes_left[i]:
                    success = None if timestep.success is None else bool(timestep.success[0, i])
                    finished.append((float(episode_return[i]), int(length[i]), success))
                    episodes_left[i] -= 1
                episode_return[i], length[i] = 0.0, 0
    finally:
        environment.close()
    returns, lengths, successes = zip(*finished, strict=True)
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
    raise TrustaxError(f"evaluate needs an environment, for example tx.evaluate(agent, 'CartPole-v1'): {reason}")
