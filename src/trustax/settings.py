"""Whether settings make sense: the kind that a field is annotated with, and the range that goes with its name."""

from collections.abc import Callable, Iterable
from numbers import Real
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from trustax.errors import TrustaxError, similar_or_all

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


OTHER_NAMES = {
    "gamma": "discount",
    "lr": "learning_rate",
    "n_steps": "horizon, an argument of train",
    "num_steps": "horizon, an argument of train",
    "n_envs": "num_envs",
    "n_epochs": "num_epochs",
    "update_epochs": "num_epochs",
    "batch_size": "num_minibatches: a minibatch holds num_envs * horizon / num_minibatches samples",
    "minibatch_size": "num_minibatches: a minibatch holds num_envs * horizon / num_minibatches samples",
    "ent_coef": "entropy_cost",
    "vf_coef": "value_cost",
    "clip_coef": "clip_range",
    "clip_range_vf": "value_clip_range",
    "max_grad_norm": "max_gradient_norm",
    "anneal_lr": "decay_learning_rate",
    "target_kl": "kl_target",
    "net_arch": "hidden_sizes",
    "norm_obs": "normalize_observations",
    "norm_reward": "normalize_rewards",
    "tensorboard_log": "run_dir: TensorBoard events are written there",
    "verbose": "quiet",
    "callback": "callbacks",
    "env_id": "env, the second argument",
}
"""What users of Stable-Baselines3 and CleanRL type first, with our name for it."""


def refuse_unknown(function: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Answer a keyword that does not exist with the name that was probably meant.

    >>> refuse_unknown("train", ["n_envs"], ["num_envs"])
    Traceback (most recent call last):
    trustax.errors.TrustaxError: train has no argument 'n_envs'; here it is called num_envs
    """
    for name in unknown:
        hint = f"here it is called {OTHER_NAMES[name]}" if name in OTHER_NAMES else similar_or_all(name, known)
        raise TrustaxError(f"{function} has no argument {name!r}; {hint}")
