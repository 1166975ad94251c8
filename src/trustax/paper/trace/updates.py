"""A run of MCPO, update by update.

The metrics of a run are means over an iteration. Here the same iterations are run with the metrics of every update:
whether a policy was remembered, which one was attended to, β, α and the three distances.
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
"""The metrics of the group `mcpo/` that are shown."""


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
    """Train what a `Run` defines, and yield each iteration with the metrics of all its updates."""
    metrics = [f"mcpo/{name}" for name in SERIES]
    for iteration in iterations(run, quiet=quiet, traced=metrics):
        series = {name: iteration.series[f"mcpo/{name}"] for name in SERIES}
        assert iteration.old_policy is not None
        yield TracedIteration(iteration.number - 1, iteration.old_policy, series, iteration.state)


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
