"""Trains MCPO and records every update.

The metrics of a normal run are averages over an iteration. Here the same iterations also return the metrics of each
update: whether it stored a policy, which policy had the highest attention, β, α and the three distances.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from trustax.agent import Agent
from trustax.algorithms.mcpo import MCPO
from trustax.evaluation import evaluate
from trustax.networks import Policy
from trustax.run import Run
from trustax.runtime.state import RunState
from trustax.training import iterations

SERIES = ("written", "attended_age", "attended_rank", "beta", "alpha", "kl_old_new", "kl_old_virtual", "kl_new_virtual")
"""The recorded metrics, without their prefix `mcpo/`."""


class TracedState(eqx.Module):
    """The state of a learner, and the metrics of the updates in its last iteration."""

    learner: MCPOState
    series: dict[str, Float[Array, " update"]]

    @property
    def policy(self) -> Policy:
        return self.learner.policy


@dataclass(frozen=True)
class TracedMCPO:
    """MCPO whose state also carries the metrics of every update, which an iteration otherwise averages."""

    algorithm: MCPO

    @property
    def discount(self) -> float:
        return self.algorithm.discount

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> TracedState:
        series = {name: jnp.zeros(updates_per_iteration(self.algorithm)) for name in SERIES}
        return TracedState(self.algorithm.init(key, spec), series)

    def update(
        self, state: TracedState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[TracedState, Metrics]:
        learner, metrics = self.algorithm.update(state.learner, rollout, progress, key)
        return TracedState(learner, {name: metrics[f"mcpo/{name}"] for name in SERIES}), metrics


class TracedIteration(NamedTuple):
    """One iteration: the policies that collected its data, its updates, and its final state.

    The state is valid only until the next iteration, which reuses its buffers.
    """

    number: int
    old: Policy
    series: dict[str, np.ndarray]
    """`seed update`"""
    state: RunState


def updates_per_iteration(algorithm: MCPO) -> int:
    """The number of updates in an iteration.

    >>> updates_per_iteration(MCPO(num_epochs=10, num_minibatches=64))
    640
    """
    return algorithm.num_epochs * algorithm.num_minibatches


def traced_iterations(run: Run[Any], quiet: bool = False) -> Iterator[TracedIteration]:
    """Train a run as `train_run` does, and yield every iteration."""
    configure_devices(run.num_seeds, large_network=observes_images(run.env_id))
    environment = make(run.env_id, run.seeds, run.num_envs)
    traced = dataclasses.replace(run, algorithm=TracedMCPO(run.algorithm))
    terminal = Terminal(run.num_iterations * run.batch_size, f"trace of MCPO on {run.env_id}", quiet=quiet)
    try:
        iterate = Iteration(traced, environment)
        with terminal:
            with terminal.waiting(f"compiling for {iterate.placement}"):
                state = iterate.compile(start(traced, environment))
            for number in range(run.num_iterations):
                old = jax.device_get(state.learner.policy)  # the iteration overwrites it
                state, metrics, _ = iterate(state, run.num_iterations)
                terminal.update({STEP: (number + 1) * run.batch_size, RETURN: metrics[RETURN].tolist()})
                plain = dataclasses.replace(state, learner=state.learner.learner)
                yield TracedIteration(number, old, jax.device_get(state.learner.series), plain)
    finally:
        environment.close()


def play_episodes(
    run: Run[Any], iteration: TracedIteration, policy: Policy, num_episodes: int
) -> Float[np.ndarray, "seed episode"]:
    """The returns of test episodes, which have the same seeds for every policy.

    Observations are normalized with the statistics at the end of the iteration. Actions are sampled, as in training:
    a half-trained policy would go in circles if it always took the most likely action.
    """
    statistics = iteration.state.observer.observation_statistics
    returns = []
    for index, seed in enumerate(run.seeds):
        one, own_statistics = jax.tree.map(lambda x, index=index: x[index], (policy, statistics))
        agent = Agent(one, own_statistics, seed=seed)
        returns.append(evaluate(agent, run.env_id, num_episodes, deterministic=False, seed=seed).returns)
    return np.stack(returns)
