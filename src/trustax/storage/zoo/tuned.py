"""Tuned settings: a TOML file for each method, with a table for each task."""

import dataclasses
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from trustax.algorithms import ALGORITHMS
from trustax.envs.engines import bare_id
from trustax.errors import TrustaxError, similar_or_all
from trustax.run import Run
from trustax.settings import validated

SETTINGS = Path(__file__).parent / "settings"
ALGORITHM = "algorithm"
"""The name of the algorithm, if it is not the method's own."""


def run(method: str, env_id: str, **changes: Any) -> Run:
    """The run of a method on a task with the settings of the zoo; `changes` are other settings.

    >>> run("ppo", "CartPole-v1", num_seeds=5).total_timesteps
    100000
    """
    algorithm, values = settings(method, env_id)
    kind = ALGORITHMS.find(algorithm)
    names = {field.name for field in dataclasses.fields(Run)}
    chosen = values | changes
    own = {name: value for name, value in chosen.items() if name in names}
    others = {name: value for name, value in chosen.items() if name not in names}
    return Run(algorithm=kind(**validated(kind, others)), env_id=env_id, **own)


def settings(method: str, env_id: str) -> tuple[str, dict[str, Any]]:
    """The name of the algorithm of a method, and its settings on a task."""
    found = tasks(method)
    name = task_name(env_id)
    if name not in found:
        raise TrustaxError(f"the zoo has no settings of {method} for {env_id}; {similar_or_all(name, found)}")
    return _content(method).get(ALGORITHM, method), found[name]


def tasks(method: str) -> dict[str, dict[str, Any]]:
    """The settings of a method by task."""
    if method not in methods():
        raise TrustaxError(f"the zoo has no settings of {method!r}; {similar_or_all(method, methods())}")
    return {name: table for name, table in _content(method).items() if name != ALGORITHM}


def methods() -> list[str]:
    """The methods with settings in the zoo."""
    return sorted(path.stem for path in SETTINGS.glob("*.toml"))


def task_name(env_id: str) -> str:
    """The name of a task: the id of its environment without an engine.

    >>> task_name("envpool:Hopper-v5"), task_name("ALE/Breakout-v5")
    ('Hopper-v5', 'Breakout-v5')
    """
    return bare_id(env_id).removeprefix("ALE/")


@cache
def _content(method: str) -> dict[str, Any]:
    return tomllib.loads((SETTINGS / f"{method}.toml").read_text(encoding="utf-8"))
