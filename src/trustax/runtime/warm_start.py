"""Start training from the policy of a trained agent, and from its statistics of observations.

The optimizer, the schedules and everything else that an algorithm keeps start as in any other run.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from trustax.agent import Agent
from trustax.errors import TrustaxError
from trustax.networks import Policy
from trustax.networks.registry import factory_of
from trustax.run import Run
from trustax.types import EnvSpec

NETWORK = ("hidden_sizes", "activation", "layer_norm", "shared_torso")
"""The settings of a network that must be equal, since the agent's parameters are used in it."""


def warm_start(state: Any, agent: Agent) -> Any:
    """The initial state of a learner with the policy of an agent; a critic that the agent lacks stays as it is.

    A state that has copies of its initial policy, such as MCPO's with its memory, has a method `with_policy`.
    """
    _require_same_network(state.policy, agent)
    parameters = agent.policy.parameters
    if not agent.has_critic:
        parameters = jnp.where(state.policy.architecture.critic_mask(), state.policy.parameters, parameters)
    policy = Policy(parameters, state.policy.architecture)
    if hasattr(state, "with_policy"):
        return state.with_policy(policy)
    return eqx.tree_at(lambda learner: learner.policy, state, policy)


def require_fit(run: Run, spec: EnvSpec, agent: Agent) -> None:
    """Raise an error if a run cannot start from an agent."""
    agent.require_fit(spec, run.env_id)
    normalizes = run.normalize_observations and not spec.is_image
    if normalizes != (agent.statistics is not None):
        raise TrustaxError(
            f"the agent at {run.start_from} was trained {'without' if normalizes else 'with'} normalized observations, "
            f"unlike this run; change normalize_observations"
        )


def _require_same_network(policy: Policy, agent: Agent) -> None:
    ours, theirs = policy.architecture, agent.policy.architecture
    if factory_of(ours.network, ours.spec) is not factory_of(theirs.network, theirs.spec):
        raise TrustaxError(f"the agent to start from has network = {theirs.network!r}; train with that network")
    for name in NETWORK:
        if getattr(ours, name) != getattr(theirs, name):
            raise TrustaxError(
                f"the agent to start from has {name} = {getattr(theirs, name)!r}, but the run has "
                f"{getattr(ours, name)!r}; train with the agent's value"
            )
