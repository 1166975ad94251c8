"""Settings: the kinds and ranges of their values, and the registries of the names that may stand in them."""

import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from types import UnionType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from trustax.errors import TrustaxError, similar_or_all

Entry = TypeVar("Entry")


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
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, point: EntryPoint) -> Entry:
        try:
            return point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.module
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise TrustaxError(f"the {self.kind} {point.name!r} of {package} cannot be loaded: {reason}") from error


LOGGERS: Registry[Any] = Registry("logger", "trustax.loggers")
"""Loggers by name; `trustax.loggers` is the entry-point group."""

COUNTS = [
    "total_timesteps",
    "num_seeds",
    "num_envs",
    "horizon",
    "memory_size",
    "num_epochs",
    "num_minibatches",
    "write_interval",
    "cg_iterations",
    "line_search_steps",
    "value_iterations",
    "value_epochs",
    "eigen_interval",
]
FRACTIONS = ["discount", "gae_lambda", "momentum", "statistics_decay", "trust_region_weight"]
ORDERED = [("kl_cost_min", "kl_cost_max")]
"""Pairs of which the first must not be above the second."""


def validated(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for a dataclass, numbers and tuples as Python's own; refused where one makes no sense.

    >>> from trustax.algorithms import PPO
    >>> validated(PPO, {"hidden_sizes": [64, 64], "num_epochs": 10.0})
    {'hidden_sizes': (64, 64), 'num_epochs': 10}
    """
    kinds = get_type_hints(kind)
    fitting = {name: _fitting(name, value, kinds.get(name)) for name, value in settings.items()}
    for name, value in fitting.items():
        _check_range(name, value)
    for low, high in ORDERED:
        if low in fitting and high in fitting and fitting[low] > fitting[high]:
            raise TrustaxError(f"{low} must not be above {high}, but {fitting[low]} is above {fitting[high]}")
    return fitting


def _fitting(name: str, value: Any, annotation: Any) -> Any:
    """The value as one of the kinds that an annotation allows; what is no plain setting is not looked at."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if not all(kind in KINDS or get_origin(kind) is Literal for kind in kinds):
        return value
    choices = [choice for kind in kinds for choice in get_args(kind) if get_origin(kind) is Literal]
    if isinstance(value, str) and value in choices:
        return value
    plain = [KINDS[kind] for kind in kinds if kind in KINDS]
    for kind in plain:
        if (fitting := kind.fit(value)) is not None:
            return fitting
    allowed = [*map(repr, choices), *(kind.name for kind in plain)]
    raise TrustaxError(f"{name} must be {' or '.join(allowed)}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole_number(value: Any) -> int | None:
    return int(value) if _is_number(value) and value == value // 1 else None


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value in ("inf", "-inf"):  # as files have it
        return float(value)
    return None if not _is_number(value) else value if isinstance(value, int) else float(value)


def _whole_numbers(value: Any) -> tuple[int, ...] | None:
    entries = [_whole_number(entry) for entry in value] if isinstance(value, list | tuple) else [None]
    return None if None in entries else tuple(entries)  # type: ignore[arg-type]


class Kind(NamedTuple):
    """A kind of settings: what people call it, and a value of it in Python's own type, or None if it is no such."""

    name: str
    fit: Callable[[Any], Any]


KINDS = {
    bool: Kind("True or False", lambda value: value if isinstance(value, bool) else None),
    int: Kind("a whole number", _whole_number),
    float: Kind("a number", _number),
    str: Kind("a text", lambda value: value if isinstance(value, str) else None),
    tuple[int, ...]: Kind("a tuple of whole numbers", _whole_numbers),
}
"""The plain kinds, by their annotations; choices are told by their own names."""


def _check_range(name: str, value: Any) -> None:
    """One vocabulary for all methods, so one table of what makes sense."""
    if name in COUNTS and value < 1:
        raise TrustaxError(f"{name} must be at least 1, not {value}")
    if name in FRACTIONS and not isinstance(value, str) and not 0 <= value <= 1:
        raise TrustaxError(f"{name} must be between 0 and 1, not {value}")
    if name == "dropout" and not 0 <= value < 1:
        raise TrustaxError(f"dropout must be at least 0 and less than 1, not {value}")
    if name == "restart_interval" and value < 0:
        raise TrustaxError(f"restart_interval must be at least 0, not {value}")
    if name == "hidden_sizes" and not all(width >= 1 for width in value):
        raise TrustaxError(f"hidden_sizes must be at least 1 each, not {value}")
    if isinstance(value, float) and name != "initial_log_std" and not value >= 0:
        raise TrustaxError(f"{name} must be a number of at least 0, not {value}")
