"""Settings: the types and ranges of their values, and the registries of the objects that they refer to by name."""

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache, cached_property
from importlib.metadata import entry_points
from math import inf
from numbers import Real
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from trustax.errors import TrustaxError, refuse_unknown, similar_or_all

Entry = TypeVar("Entry")
Settings = TypeVar("Settings")


class Registry(MutableMapping[str, Entry], Generic[Entry]):
    """Objects by name: built-in ones, registered ones, and the entry points of installed packages.

    Entry points are read when a name is not found or when all names are listed, never at import. A name that comes from
    a file can therefore only load what the user has installed or registered.

    >>> colors = Registry("color", "example.colors", {"red": 0xFF0000})
    >>> colors.register("blue", 0x0000FF)
    >>> list(colors), colors.name_of(0x0000FF)
    (['red', 'blue'], 'blue')
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, Entry] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._builtin = frozenset(builtin or {})
        self._entries = dict(builtin or {})

    def register(self, name: str, entry: Entry) -> None:
        """Add an object under a name; a later registration of the same name replaces an earlier one."""
        if not isinstance(name, str) or not name or any(character.isspace() or character == ":" for character in name):
            raise TrustaxError(f"the name of a {self.kind} must be a word without spaces and colons, not {name!r}")
        if name in self._builtin:
            raise TrustaxError(f"{name!r} is built in; choose another name")
        self[name] = entry

    def find(self, name: str) -> Entry:
        """The object with this name; an unknown name raises an error that suggests similar ones."""
        try:
            return self[name]
        except KeyError:
            raise TrustaxError(f"there is no {self.kind} {name!r}; {similar_or_all(str(name), self)}") from None

    def name_of(self, entry: Entry) -> str | None:
        """The name of an object; None if it has none."""
        for entries in (self._entries, self):
            for name in entries:
                if entries[name] is entry:
                    return name
        return None

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries and name in self._entry_points:
            self._entries[name] = self._load(self._entry_points[name])
        return self._entries[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[str]:
        """All names. An entry point that cannot be loaded is left out with a warning: other names stay usable."""
        for name in self._entry_points:
            try:
                self[name]
            except TrustaxError as error:
                warnings.warn(str(error), stacklevel=2)
        return iter(list(self._entries))

    @cached_property
    def _entry_points(self) -> dict[str, Any]:
        # Their class is not checked: the package importlib_metadata, where something imports it, returns its own.
        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: Any) -> Entry:
        try:
            return point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.module
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise TrustaxError(f"the {self.kind} {point.name!r} of {package} cannot be loaded: {reason}") from error


if TYPE_CHECKING:
    PerLearner: TypeAlias = Any  # a number when it is read, a number or a tuple when it is set
else:
    PerLearner = float | tuple[float, ...]
"""The annotation of a setting that may have one value for each learner: a tuple as long as `num_seeds`. It is read as a
number, which is traced where learners differ, so an algorithm may compute with it but not branch on it."""


class Range(NamedTuple):
    """The values that a setting may have."""

    minimum: int | float
    maximum: int | float
    below: int | float
    not_below: str
    """the name of a setting that must not be larger"""

    def contains(self, value: int | float) -> bool:
        return self.minimum <= value <= self.maximum and (value < self.below or self.below == inf)


def setting(
    default: Any,
    *,
    minimum: int | float = -inf,
    maximum: int | float = inf,
    below: int | float = inf,
    not_below: str = "",
) -> Any:
    """A field of a dataclass of settings, with its default and its range.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Mine:
    ...     temperature: float = setting(0.5, minimum=-1, maximum=1)
    >>> validated(Mine, {"temperature": 2.0})
    Traceback (most recent call last):
    trustax.errors.TrustaxError: temperature must be between -1 and 1, not 2.0
    """
    return dataclasses.field(default=default, metadata={Range: Range(minimum, maximum, below, not_below)})


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
        known = getattr(cls, "__dataclass_fields__", {})
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


def validated(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for a dataclass, with values in Python's own types; a value that does not fit raises an error.

    >>> from trustax.algorithms import PPO
    >>> validated(PPO, {"hidden_sizes": [64, 64], "num_epochs": 10.0})
    {'hidden_sizes': (64, 64), 'num_epochs': 10}
    """
    kinds = _annotations(kind)
    fitting = {name: _fitting(name, value, kinds.get(name)) for name, value in settings.items()}
    for field in getattr(kind, "__dataclass_fields__", {}).values():
        if field.name in fitting and Range in field.metadata:
            _check_range(field.name, fitting, field.metadata[Range])
    return fitting


@cache
def _annotations(kind: type) -> dict[str, Any]:
    """The annotations of a class, evaluated once: thousands of settings are checked for one report."""
    return get_type_hints(kind)


def _fitting(name: str, value: Any, annotation: Any) -> Any:
    """The value as one of the kinds that an annotation allows; other annotations are not checked."""
    found = _allowed_by(annotation)
    if found is None:
        return value
    choices, plain = found
    if isinstance(value, str) and value in choices:
        return value
    for kind in plain:
        if (fitting := kind.fit(value)) is not None:
            return fitting
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
    if type(value) is float:
        return value
    if isinstance(value, str) and value in ("inf", "-inf"):  # how JSON files store it
        return float(value)
    return None if not _is_number(value) else value if isinstance(value, int) else float(value)


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


def _check_range(name: str, settings: dict[str, Any], allowed: Range) -> None:
    """Refuse a value out of its range; of a tuple, each entry must be in it."""
    value = settings[name]
    entries = value if isinstance(value, tuple) else () if isinstance(value, str) else (value,)
    if not all(allowed.contains(entry) for entry in entries):
        each = " each" if isinstance(value, tuple) else ""
        raise TrustaxError(f"{name} must be {_described(allowed)}{each}, not {value}")
    if allowed.not_below in settings:
        low = settings[allowed.not_below]
        lows = low if isinstance(low, tuple) else (low,)
        pairs = zip(lows * len(entries), entries * len(lows), strict=False)
        if any(low_entry > entry for low_entry, entry in pairs):
            raise TrustaxError(f"{allowed.not_below} must not be above {name}, but {low} is above {value}")


def _described(allowed: Range) -> str:
    if allowed.maximum < inf:
        return f"between {allowed.minimum:g} and {allowed.maximum:g}"
    return f"at least {allowed.minimum:g}" + (f" and less than {allowed.below:g}" if allowed.below < inf else "")


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
