"""Whether settings make sense: the kind that a field is annotated with, and the range that goes with its name."""

from numbers import Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trustax.errors import TrustaxError

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
NAMES = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple[int, ...]: "a tuple of whole numbers",
}
"""Kinds of settings, as people call them; choices tell themselves."""
ORDERED = [("kl_cost_min", "kl_cost_max")]
"""Pairs of which the first must not be above the second."""


def tidied(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for a dataclass, numbers and tuples as Python's own; refused where one makes no sense.

    >>> from trustax.algorithms import PPO
    >>> tidied(PPO, {"hidden_sizes": [64, 64], "num_epochs": 10.0})
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


def _fitting(name: str, value: Any, kind: Any) -> Any:
    """The value as one of the kinds that an annotation allows; what is no plain setting is not looked at."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for one in kinds:
        if get_origin(one) is Literal:
            if isinstance(value, str) and value in get_args(one):
                return value
        elif one not in NAMES:
            return value
        elif one == tuple[int, ...] and isinstance(value, list | tuple):
            return tuple(_fitting(name, entry, int) for entry in value)
        elif one is int and _is_number(value) and value == value // 1:
            return int(value)
        elif one is float and _is_number(value):
            return value if isinstance(value, int) else float(value)
        elif one is float and value in ("inf", "-inf"):  # as files have it
            return float(value)
        elif one in (bool, str) and isinstance(value, one):
            return value
    allowed = [repr(choice) for one in kinds if get_origin(one) is Literal for choice in get_args(one)]
    allowed += [NAMES[one] for one in kinds if one in NAMES]
    raise TrustaxError(f"{name} must be {' or '.join(allowed)}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


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
