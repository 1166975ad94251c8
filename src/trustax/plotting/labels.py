"""Legend labels for runs in one plot: as short as possible while still distinct."""

from collections.abc import Mapping, Sequence
from typing import Any

from trustax.run import Run, settings_of

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


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in settings[0] if any(other[name] != settings[0][name] for other in settings)]
