"""Names for runs that are shown together: as short as they can be and still differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from trustax.run import Run, settings_of

IGNORED_FIELDS = {"seed", "num_seeds", "total_timesteps", "env_id"}
"""What no label is made of: a curve shows it, or it is labels in another way."""


def labels_of(runs: Mapping[str, Run]) -> list[str]:
    """The method of each run; with its environment, the settings in which it differs, or its name, where needed.

    >>> from trustax.algorithms import MCPO, PPO
    >>> methods = {"a": MCPO(), "b": MCPO(virtual_policy="mean"), "c": PPO()}
    >>> labels_of({name: Run(algorithm=method, env_id="Pendulum-v1") for name, method in methods.items()})
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
