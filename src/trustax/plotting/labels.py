"""Legend labels for runs in one plot: as short as possible while still distinct."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trustax.run import Run, settings_of
from trustax.settings import per_learner_values

IGNORED_FIELDS = {"seed", "num_seeds", "repeat_seeds", "total_timesteps", "env_id"}
"""Fields that labels leave out: the plot shows them, or the label names them in another way."""


def run_labels(runs: Mapping[str, Run]) -> list[str]:
    """The algorithm of each run, plus its environment, differing settings or name where needed.

    >>> from trustax.algorithms import MCPO, PPO
    >>> methods = {"a": MCPO(), "b": MCPO(virtual_policy="mean"), "c": PPO()}
    >>> run_labels({name: Run(algorithm=method, env_id="Pendulum-v1") for name, method in methods.items()})
    ['mcpo virtual_policy=attention', 'mcpo virtual_policy=mean', 'ppo']
    """
    several = len({run.env_id for run in runs.values()}) > 1
    named = [run.algorithm_name + (f" {run.env_id}" if several else "") for run in runs.values()]
    settings = [settings_of(run, IGNORED_FIELDS) for run in runs.values()]
    labels = []
    for label, own in zip(named, settings, strict=True):
        alike = [other for name, other in zip(named, settings, strict=True) if name == label]
        labels.append(" ".join([label, *(f"{name}={own[name]}" for name in _differing(alike))]))
    return [label if labels.count(label) == 1 else f"{label} {name}" for label, name in zip(labels, runs, strict=True)]


def groups_of(run: Run) -> list[tuple[Run, slice]]:
    """The groups of learners that a sweep trains in one run, each as a run of its own, with its learners there.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(learning_rate=(1e-4, 1e-4, 1e-3, 1e-3)), env_id="A", num_seeds=4, repeat_seeds=2)
    >>> [(one.algorithm.learning_rate, learners) for one, learners in groups_of(run)]
    [(0.0001, slice(0, 2, None)), (0.001, slice(2, 4, None))]
    """
    if run.repeat_seeds == 1:
        return [(run, slice(None))]
    size = run.num_seeds // run.repeat_seeds
    groups = [slice(start, start + size) for start in range(0, run.num_seeds, size)]
    return [(_with_learners(run, learners, size), learners) for learners in groups]


def _with_learners(run: Run, learners: slice, size: int) -> Run:
    values = {name: each[learners] for name, each in per_learner_values(run.algorithm).items()}
    own = {name: each[0] if len(set(each)) == 1 else each for name, each in values.items()}
    algorithm: Any = run.algorithm
    return replace(run, algorithm=replace(algorithm, **own), num_seeds=size, repeat_seeds=1)


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in settings[0] if any(other[name] != settings[0][name] for other in settings)]
