"""The types of settings: a value is converted to the type of its annotation, or refused.

>>> fitting("num_epochs", 10.0, int), fitting("value_clip_range", 1, float)
(10, 1.0)
>>> fitting("num_epochs", 2.5, int)
Traceback (most recent call last):
trustax.errors.TrustaxError: num_epochs must be a whole number, not 2.5
"""

from collections.abc import Callable
from functools import cache
from numbers import Real
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from trustax.errors import TrustaxError

if TYPE_CHECKING:
    PerLearner: TypeAlias = Any  # a number when it is read, a number or a tuple when it is set
else:
    PerLearner = float | tuple[float, ...]
"""The annotation of a setting that may have one value for each learner: a tuple as long as `num_seeds`. It is read as a
number, which is traced where learners differ, so an algorithm may compute with it but not branch on it."""


def fitting(name: str, value: Any, annotation: Any) -> Any:
    """The value as one of the kinds that an annotation allows; other annotations are not checked."""
    found = _allowed_by(annotation)
    if found is None:
        return value
    choices, plain = found
    if isinstance(value, str) and value in choices:
        return value
    for kind in plain:
        if (converted := kind.fit(value)) is not None:
            return converted
    allowed = [*map(repr, choices), *(kind.name for kind in plain)]
    raise TrustaxError(f"{name} must be {' or '.join(allowed)}, not {value!r}")


@cache
def _allowed_by(annotation: Any) -> tuple[list[str], list["Kind"]] | None:
    """The choices and the plain kinds that an annotation allows; None if it allows something else."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if not all(kind in KINDS or get_origin(kind) is Literal for kind in kinds):
        return None
    choices = [choice for kind in kinds for choice in get_args(kind) if get_origin(kind) is Literal]
    return choices, [KINDS[kind] for kind in kinds if kind in KINDS]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole_number(value: Any) -> int | None:
    if type(value) is int:
        return value
    return int(value) if _is_number(value) and value == value // 1 else None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value in ("inf", "-inf"):  # how JSON files store it
        return float(value)
    return float(value) if _is_number(value) else None


def _whole_numbers(value: Any) -> tuple[int, ...] | None:
    entries = [_whole_number(entry) for entry in value] if isinstance(value, list | tuple) else [None]
    return None if None in entries else tuple(entries)  # type: ignore[arg-type]


def _numbers(value: Any) -> tuple[float, ...] | None:
    entries = [_number(entry) for entry in value] if isinstance(value, list | tuple) else [None]
    return None if None in entries else tuple(entries)  # type: ignore[arg-type]


class Kind(NamedTuple):
    """A kind of setting: its name in messages, and a function that converts a value to it, or returns None."""

    name: str
    fit: Callable[[Any], Any]


KINDS = {
    bool: Kind("True or False", lambda value: value if isinstance(value, bool) else None),
    int: Kind("a whole number", _whole_number),
    float: Kind("a number", _number),
    str: Kind("a string", lambda value: value if isinstance(value, str) else None),
    tuple[int, ...]: Kind("a tuple of whole numbers", _whole_numbers),
    tuple[float, ...]: Kind("a tuple of numbers", _numbers),
}
"""The plain kinds, by their annotations; a choice is shown by its own name."""
