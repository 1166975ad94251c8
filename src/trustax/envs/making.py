"""Make Gymnasium environments: registered ones with the wrappers for learning, and those of a callable.

Worker processes import this module without the rest of Trustax, so its imports of Trustax are relative, and none of
them leads to JAX.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium

from ..errors import TrustaxError
from .atari import ALE_OPTIONS, preprocess
from .errors import failures_of
from .minigrid import SymbolicView

EXTRAS = {
    "box2d": "trustax[box2d]",
    "mujoco": "trustax[mujoco]",
    "minigrid": "trustax[minigrid]",
    "ale_py": "trustax[atari]",
}
"""The extra to install for environments that need a package."""

FAMILIES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}
"""Packages that register ids with these prefixes when they are imported."""


def name_of(env: str | Callable[[], gymnasium.Env]) -> str:
    """How messages refer to an environment.

    >>> name_of(partial(gymnasium.make, "CartPole-v1"))
    'make'
    """
    if isinstance(env, partial):
        return name_of(env.func)
    return env if isinstance(env, str) else getattr(env, "__name__", repr(env))


def make_copies(env: str | Callable[[], gymnasium.Env], count: int) -> list[gymnasium.Env]:
    """Make `count` environments of an id or with a callable."""
    copies, name = list[gymnasium.Env](), name_of(env)
    with ExitStack() as made:  # closes the first copies if a later one fails
        for index in range(count):
            with failures_of(index, "making it"):
                # Gymnasium's environment checker is meant for authors and takes time: once is enough.
                unchecked = None if index == 0 else True
                copies.append(registered(env, disable_env_checker=unchecked) if isinstance(env, str) else env())
            if not isinstance(copies[-1], gymnasium.Env):
                raise TrustaxError(f"{name} must return a gymnasium.Env, not {type(copies[-1]).__name__}")
            made.callback(copies[-1].close)
        if len({id(copy) for copy in copies}) < count:
            raise TrustaxError(f"{name} must make a new environment at each call, not return the same one")
        made.pop_all()
    return copies


def registered(env_id: str, **options: Any) -> gymnasium.Env:
    """Make a registered environment with the wrappers for learning; `options` go to `gymnasium.make`."""
    family = family_of(env_id)
    try:
        if family is not None:
            import_module(family)
        if family == "ale_py":
            return preprocess(gymnasium.make(env_id, **ALE_OPTIONS, **options))
        environment = gymnasium.make(env_id, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise TrustaxError(f"gymnasium:{env_id} cannot be made: {_explain_failure(env_id, error)}") from error
    return SymbolicView(environment) if family == "minigrid" else environment


def family_of(env_id: str) -> str | None:
    """The package in `FAMILIES` that registers an id with Gymnasium, if any.

    >>> family_of("ALE/Pong-v5"), family_of("CartPole-v1")
    ('ale_py', None)
    """
    return next((package for prefix, package in FAMILIES.items() if env_id.startswith(prefix)), None)


def _explain_failure(env_id: str, error: Exception) -> str:
    """The reason why an environment cannot be made, in one line, and the extra to install if that is missing."""
    reason = " ".join(str(error).split())
    specification = gymnasium.registry.get(env_id)
    code = family_of(env_id) or getattr(specification, "entry_point", "")
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ModuleNotFoundError):
        for package, extra in EXTRAS.items():
            if package in str(code):
                return f'a dependency is not installed: pip install "{extra}"'
    if isinstance(error, ModuleNotFoundError) and ":" in env_id:
        return f"{reason} To import a module from this folder, set PYTHONPATH=."
    return reason
