"""A run of MCPO, update by update.

A journal keeps what an iteration did on average. Here the same iterations are run, and each update shows what it did:
whether a policy was remembered, which one was attended to, β, α and the three distances.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from trustax.agent import Agent
from trustax.algorithms.mcpo.mcpo import MCPO, MCPOState
from trustax.cli.progress import Terminal
from trustax.envs import make
from trustax.envs.engines import observes_images
from trustax.evaluation import evaluate
from trustax.networks import Policy
from trustax.ops.metrics import RETURN, STEP
from trustax.run import Run
from trustax.runtime.devices import configure_devices
from trustax.runtime.iteration import Iteration
from trustax.runtime.state import RunState, start
from trustax.types import EnvSpec, Metrics, Progress, Rollout

SERIES = ("written", "attended_age", "attended_rank", "beta", "alpha", "kl_old_new", "kl_old_virtual", "kl_new_virtual")
"""The metrics of the group `mcpo/` that are shown."""


class TracedState(eqx.Module):
    """A learner, and what its last iteration did."""

    learner: MCPOState
    series: dict[str, Float[Array, " update"]]

    @property
    def policy(self) -> Policy:
        return self.learner.policy


@dataclass(frozen=True)
class Traced:
    """MCPO as it is, except that its state carries the series along, of which an iteration returns only the mean."""

    algorithm: MCPO

    @property
    def discount(self) -> float:
        return self.algorithm.discount

    def init(self, key: Key[Array, ""], spec: EnvSpec) -> TracedState:
        series = {name: jnp.zeros(updates_of(self.algorithm)) for name in SERIES}
        return TracedState(self.algorithm.init(key, spec), series)

    def update(
        self, state: TracedState, rollout: Rollout, progress: Progress, key: Key[Array, ""]
    ) -> tuple[TracedState, Metrics]:
        learner, metrics = self.algorithm.update(state.learner, rollout, progress, key)
        return TracedState(learner, {name: metrics[f"mcpo/{name}"] for name in SERIES}), metrics


class TracedIteration(NamedTuple):
    """One iteration: the policies that collected its data, its updates, and the state that it ended in.

    The state is there until the next look: the next iteration is written into its place.
    """

    number: int
    old: Policy
    series: dict[str, np.ndarray]
    """`seed update`"""
    state: RunState


def updates_of(algorithm: MCPO) -> int:
    """How many updates an iteration has.

    >>> updates_of(MCPO(num_epochs=10, num_minibatches=64))
    640
    """
    return algorithm.num_epochs * algorithm.num_minibatches


def traced_iterations(run: Run[Any], quiet: bool = False) -> Iterator[TracedIteration]:
    """Train what a `Run` defines, as `train_run` does, and look at each iteration."""
    configure_devices(run.num_seeds, large_network=observes_images(run.env_id))
    environment = make(run.env_id, run.seeds, run.num_envs)
    traced = dataclasses.replace(run, algorithm=Traced(run.algorithm))
    terminal = Terminal(run.num_iterations * run.batch_size, f"trace of MCPO on {run.env_id}", quiet=quiet)
    try:
        iterate = Iteration(traced, environment)
        with terminal:
            with terminal.waiting(f"compiling for {iterate.placement}"):
                state = iterate.compile(start(traced, environment))
            for number in range(run.num_iterations):
                old = jax.device_get(state.learner.policy)  # the iteration will write over it
                state, metrics, _ = iterate(state, run.num_iterations)
                terminal.update({STEP: (number + 1) * run.batch_size, RETURN: metrics[RETURN].tolist()})
                plain = dataclasses.replace(state, learner=state.learner.learner)
                yield TracedIteration(number, old, jax.device_get(state.learner.series), plain)
    finally:
        environment.close()


def play(run: Run[Any], look: TracedIteration, policy: Policy, num_episodes: int) -> Float[np.ndarray, "seed episode"]:
    """The returns of test episodes, which begin alike for every policy of a seed.

    All policies see by the statistics of the iteration's end. Actions are sampled, as in training: the likeliest alone
    would lead an unfinished policy in circles.
    """
    statistics = look.state.observer.observation_statistics
    returns = []
    for index, seed in enumerate(run.seeds):
        one, seen = jax.tree.map(lambda x, index=index: x[index], (policy, statistics))
        agent = Agent(one, seen, seed=seed)
        returns.append(evaluate(agent, run.env_id, num_episodes, deterministic=False, seed=seed).returns)
    return np.stack(returns)
