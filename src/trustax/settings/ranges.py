"""The ranges of settings: the values that each of them may have."""

import dataclasses
from math import inf
from typing import Any, NamedTuple

from trustax.errors import TrustaxError


class AllowedRange(NamedTuple):
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

    >>> from trustax.settings import validated
    >>> @dataclasses.dataclass(frozen=True)
    ... class Mine:
    ...     temperature: float = setting(0.5, minimum=-1, maximum=1)
    >>> validated(Mine, {"temperature": 2.0})
    Traceback (most recent call last):
    trustax.errors.TrustaxError: temperature must be between -1 and 1, not 2.0
    """
    return dataclasses.field(default=default, metadata={AllowedRange: AllowedRange(minimum, maximum, below, not_below)})


def check_range(name: str, settings: dict[str, Any], allowed: AllowedRange) -> None:
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


def _described(allowed: AllowedRange) -> str:
    if allowed.maximum < inf:
        return f"between {allowed.minimum:g} and {allowed.maximum:g}"
    return f"at least {allowed.minimum:g}" + (f" and less than {allowed.below:g}" if allowed.below < inf else "")
