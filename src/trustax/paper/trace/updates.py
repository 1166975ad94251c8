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
from trustax.evaluation import evaluate_all
from trustax.networks import Policy
from trustax.run import Run
from trustax.runtime.state import RunState
from trustax.training import iterations

SERIES = ("written", "attended_age", "attended_rank", "beta", "alpha", "kl_old_new", "kl_old_virtual", "kl_new_virtual")
"""The recorded metrics, without their prefix `mcpo/`."""


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
    """Train a run and yield every iteration with the metrics of all its updates."""
    metrics = [f"mcpo/{name}" for name in SERIES]
    for iteration in iterations(run, quiet=quiet, traced=metrics):
        series = {name: iteration.series[f"mcpo/{name}"] for name in SERIES}
        assert iteration.old_policy is not None
        yield TracedIteration(iteration.number - 1, iteration.old_policy, series, iteration.state)


def play_episodes(
    run: Run[Any], iteration: TracedIteration, policy: Policy, num_episodes: int
) -> Float[np.ndarray, "seed episode"]:
    """The returns of test episodes, which have the same seeds for every policy.

    Observations are normalized with the statistics at the end of the iteration. Actions are sampled, as in training:
    a half-trained policy would go in circles if it always took the most likely action.
    """
    statistics = iteration.state.observer.observation_statistics
    agents = []
    for index, seed in enumerate(run.seeds):
        one, own_statistics = jax.tree.map(lambda x, index=index: x[index], (policy, statistics))
        agents.append(Agent(one, own_statistics, seed=seed))
    results = evaluate_all(agents, run.env_id, run.seeds, num_episodes, deterministic=False)
    return np.stack([result.returns for result in results])
