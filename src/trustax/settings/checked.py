"""Settings whose names, types and ranges are checked when they are made."""

import copy
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

from trustax.errors import TrustaxError, refuse_unknown
from trustax.settings.kinds import PerLearner, fitting
from trustax.settings.ranges import AllowedRange, check_range

Settings = TypeVar("Settings")

TRAIN_ARGUMENTS = (
    *("env", "total_timesteps", "num_seeds", "seed", "num_envs", "horizon", "run_dir", "callbacks", "quiet"),
    *("normalize_observations", "normalize_rewards", "bootstrap_truncation"),
)
"""Arguments of `train` that users of other libraries give to the algorithm."""


class CheckedSettings:
    """A base of dataclasses of settings: names and values are checked when an object is made.

    >>> from trustax.algorithms import PPO
    >>> PPO(gamma=0.9)
    Traceback (most recent call last):
    trustax.errors.TrustaxError: PPO has no argument 'gamma'; here it is called discount
    """

    def __new__(cls, *positional: Any, **settings: Any) -> Any:
        known = settings_of_class(cls)
        if positional and not isinstance(positional[0], str):
            example = f"{next(iter(known), 'setting')}={positional[0]!r}"
            raise TrustaxError(f"{cls.__name__} takes keyword arguments only, such as {cls.__name__}({example})")
        if positional and "env" in known:
            example = f'{cls.__name__}(env="{positional[0]}")'
            raise TrustaxError(f"{cls.__name__} takes keyword arguments only, such as {example}")
        if positional:
            raise TrustaxError(
                f"{cls.__name__} takes keyword arguments only; the environment is an argument of train: "
                f'train({cls.__name__}(), "CartPole-v1")'
            )
        unknown = [name for name in settings if name not in known]
        refuse_unknown(cls.__name__, unknown, known, TRAIN_ARGUMENTS, "an argument of train")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, value in validated(type(self), vars(self)).items():
            object.__setattr__(self, name, value)


def settings_of_class(kind: type) -> dict[str, Field[Any]]:
    """The fields of a dataclass by their names, without its class variables."""
    return {field.name: field for field in fields(kind)} if is_dataclass(kind) else {}


def validated(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for a dataclass, with values in Python's own types; a value that does not fit raises an error.

    >>> from trustax.algorithms import PPO
    >>> validated(PPO, {"hidden_sizes": [64, 64], "num_epochs": 10.0})
    {'hidden_sizes': (64, 64), 'num_epochs': 10}
    """
    kinds = _annotations(kind)
    converted = {name: fitting(name, value, kinds.get(name)) for name, value in settings.items()}
    for field in settings_of_class(kind).values():
        if field.name in converted and AllowedRange in field.metadata:
            check_range(field.name, converted, field.metadata[AllowedRange])
    return converted


@cache
def _annotations(kind: type) -> dict[str, Any]:
    """The annotations of a class, evaluated once: thousands of settings are checked for one report."""
    return get_type_hints(kind)


def per_learner_values(settings: Any) -> dict[str, tuple[float, ...]]:
    """The settings that have one value for each learner.

    >>> from trustax.algorithms import PPO
    >>> per_learner_values(PPO(learning_rate=(1e-4, 1e-3), hidden_sizes=(64, 64)))
    {'learning_rate': (0.0001, 0.001)}
    """
    owner: type = type(settings)
    mapped = [name for name, kind in _annotations(owner).items() if kind == PerLearner]
    values = {name: getattr(settings, name) for name in mapped}
    return {name: value for name, value in values.items() if isinstance(value, tuple)}


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """A copy of settings with other values, which may be traced arrays."""
    changed = copy.copy(settings)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed
