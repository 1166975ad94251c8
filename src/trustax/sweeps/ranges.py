"""The settings to tune: ranges and choices, checked against the run they belong to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trustax.errors import TrustaxError, suggestion
from trustax.run import Run
from trustax.settings import PerLearner
from trustax.sweeps.grid import setting_names, with_choice

FIXED = ("env_id", "seed", "num_seeds", "total_timesteps")
"""Settings that all trials share."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included; with `log`, orders of magnitude are equally likely.

    A setting that takes whole numbers is tuned over the whole numbers of its range.

    >>> Range(1e-2, 1e-5, log=True)
    Traceback (most recent call last):
    trustax.errors.TrustaxError: a range must go from a lower to a higher number, not from 0.01 to 1e-05
    """

    low: int | float
    high: int | float
    log: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(end, int | float) for end in (self.low, self.high)):
            raise TrustaxError(f"a range needs two numbers, not {self.low!r} and {self.high!r}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise TrustaxError(
                f"a range must go from a lower to a higher number, not from {self.low:g} to {self.high:g}"
            )
        if self.log and self.low <= 0:
            raise TrustaxError(f"a range with log must start above 0, not at {self.low:g}")

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}" + (":log" if self.log else "")


Space = Mapping[str, Range | Sequence[Any]]
"""Setting → its range or its choices."""


def kind_of(run: Run, name: str) -> Any:
    """The annotation of a setting of a run or of its algorithm."""
    return (get_type_hints(type(run.algorithm)) | get_type_hints(Run)).get(name)


def checked_space(run: Run, space: Space) -> dict[str, Range | tuple[Any, ...]]:
    """Check the names, ranges and choices to tune; every error is one line."""
    if not space:
        raise TrustaxError("there is nothing to tune; give at least one setting, for example learning_rate")
    return {name: _checked(run, name, values) for name, values in space.items()}


def _checked(run: Run, name: str, values: Range | Sequence[Any]) -> Range | tuple[Any, ...]:
    known = [one for one in setting_names(run.algorithm) if one not in (*FIXED, "algorithm")]
    if name in FIXED:
        raise TrustaxError(f"{name} cannot be tuned: all trials share it")
    if name not in known:
        raise TrustaxError(f"{run.algorithm_name} has no setting {name!r} to tune; {suggestion(name, known)}")
    if isinstance(values, Range):
        return _checked_range(run, name, values)
    _refuse_pair(name, values)
    choices = tuple(tuple(one) if isinstance(one, list) else one for one in values)
    if isinstance(values, str) or len(choices) < 2 or len(set(map(repr, choices))) < len(choices):
        raise TrustaxError(f"{name} needs a range or at least two different choices, not {values!r}")
    for value in choices:
        _try(run, name, value)
    return choices


def _refuse_pair(name: str, values: Any) -> None:
    """Refuse a tuple of two numbers, which may mean a range or two choices."""
    are_numbers = isinstance(values, tuple) and all(type(one) in (int, float) for one in values)
    if are_numbers and len(values) == 2:
        low, high = values
        raise TrustaxError(
            f"{name} is {values!r}: write tx.Range({low!r}, {high!r}) for a range "
            f"or [{low!r}, {high!r}] for two choices"
        )


def _checked_range(run: Run, name: str, values: Range) -> Range:
    kinds = _plain_kinds(kind_of(run, name))
    if not {int, float} & kinds.keys():
        choices = ",".join(kinds.get(Literal, ("first", "second")))
        raise TrustaxError(f"{name} is not a number, so it has no range; give choices, for example {name}:{choices}")
    if float not in kinds and any(float(end) != int(end) for end in (values.low, values.high)):
        raise TrustaxError(f"{name} takes whole numbers, not {values}; give for example {name}:1..20")
    for end in (values.low, values.high):
        _try(run, name, end)
    return values if float in kinds else Range(int(values.low), int(values.high), values.log)


def _plain_kinds(annotation: Any) -> dict[Any, Any]:
    """The kinds that an annotation allows; `Literal` with its choices."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return {get_origin(kind) if get_origin(kind) is Literal else kind: get_args(kind) for kind in kinds}


def _try(run: Run, name: str, value: Any) -> None:
    """Raise an error if the setting cannot have this value, all other settings being as in the run."""
    try:
        with_choice(run, {name: value}).require_one_iteration()
    except TrustaxError as error:
        raise TrustaxError(f"{name} cannot be tuned like this: {error}") from error


def is_mapped(run: Run, name: str) -> bool:
    """Whether learners of one run can differ in this setting, so that trials share a compiled program."""
    return kind_of(run, name) == PerLearner


def suggest(trial: Any, run: Run, space: Space) -> None:
    """Let Optuna suggest every setting of a trial that has no value yet."""
    for name, values in space.items():
        if not isinstance(values, Range):
            trial.suggest_categorical(name, [_as_category(value) for value in values])
        elif float in _plain_kinds(kind_of(run, name)):
            trial.suggest_float(name, float(values.low), float(values.high), log=values.log)
        else:
            trial.suggest_int(name, int(values.low), int(values.high), log=values.log)


def choice_of(space: Space, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that Optuna's parameters stand for."""
    return {
        name: parameters[name]
        if isinstance(values, Range)
        else next(value for value in values if _as_category(value) == parameters[name])
        for name, values in space.items()
    }


def default_choice(run: Run, space: Space) -> dict[str, Any] | None:
    """The default settings as Optuna's parameters; None if one of them is outside its range or its choices."""
    defaults = {name: getattr(run.algorithm, name, getattr(run, name, None)) for name in space}
    for name, values in space.items():
        default = defaults[name]
        if isinstance(values, Range):
            if not isinstance(default, int | float) or not values.low <= default <= values.high:
                return None
        elif default not in values:
            return None
        defaults[name] = _as_category(default)
    return defaults


def _as_category(value: Any) -> Any:
    """Optuna stores no tuples, so they become texts: (64, 64) is 64x64."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
