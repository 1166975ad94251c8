"""Registries of the objects that settings refer to by name."""

import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

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
