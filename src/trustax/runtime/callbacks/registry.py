"""Callbacks by name: those of Trustax, those that a program registers, and those of installed packages."""

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_origin

from trustax.errors import TrustaxError, similar_or_all
from trustax.runtime.callbacks.evaluating import Evaluate
from trustax.runtime.callbacks.keeping import KeepAgents
from trustax.runtime.callbacks.printing import PrintProgress
from trustax.runtime.callbacks.stopping import StopAtReturn, StopWithoutProgress
from trustax.settings import Registry

CALLBACKS: Registry[type] = Registry(
    "callback",
    "trustax.callbacks",
    {
        "evaluate": Evaluate,
        "stop-at-return": StopAtReturn,
        "stop-without-progress": StopWithoutProgress,
        "keep-agents": KeepAgents,
        "progress": PrintProgress,
    },
)
"""Callbacks by name; `trustax.callbacks` is the entry-point group."""


def register_callback(name: str, callback: type) -> None:
    """Give a callback, a dataclass with any of the methods of `Hooks`, a name on the command line."""
    _require_dataclass(name, callback)
    CALLBACKS.register(name, callback)


def callback_from_text(text: str) -> Any:
    """Create a callback from its text on the command line: a name, and settings after a colon.

    >>> callback_from_text("evaluate:interval=5,episodes=20").episodes
    20
    """
    name, _, rest = text.partition(":")
    callback = _require_dataclass(name, CALLBACKS.find(name))
    known = {field.name: field.type for field in fields(callback)}
    settings: dict[str, Any] = {}
    for setting in filter(None, rest.split(",")):
        key, equals, value = setting.partition("=")
        if key not in known:
            raise TrustaxError(f"callback {name} has no setting {key!r}; {similar_or_all(key, known)}")
        if Callable in (known[key], get_origin(known[key])):
            raise TrustaxError(
                f"{key} of callback {name} must be a function, not a text; set it in Python: "
                f"{callback.__name__}({key}=...)"
            )
        if not equals:
            raise TrustaxError(f"{key} of callback {name} needs a value; write {name}:{key}=VALUE")
        settings[key] = _parse_value(value)
    for field in fields(callback):
        if field.default is field.default_factory is MISSING and field.name not in settings:
            raise TrustaxError(f"callback {name} needs a value for {field.name}; write {name}:{field.name}=VALUE")
    try:
        return callback(**settings)
    except TrustaxError as error:
        raise TrustaxError(f"callback {name}: {error}") from error


def _require_dataclass(name: str, callback: Any) -> Any:
    """The callback, if it has fields that a text can set."""
    if isinstance(callback, type) and is_dataclass(callback):
        return callback
    raise TrustaxError(f"the callback {name!r} must be a dataclass, whose fields are its settings, not {callback!r}")


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
