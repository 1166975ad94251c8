"""Which engine runs an environment, and the environment made wide by it.

Engines, from the fastest to the slowest: `native` (JAX), `envpool` (C++), `gymnasium` (Python). An id may
name one with a prefix, as in `gymnasium:Pendulum-v1`; a bare id goes to the fastest that has it.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import gymnasium

from trustax.envs.base import CompiledEnvironment, HostEnvironment, Stepped
from trustax.envs.envpool import EnvPoolCompiled, EnvPoolHost, can_compile, envpool_ids
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.native import DEFINITIONS, Definition, NativeEnvironment
from trustax.errors import TrustaxError

ENGINES = ("native", "envpool", "gymnasium")
_INSTALL_ENVPOOL = 'EnvPool is not installed: pip install "trustax[envpool]"'

Environment = str | Callable[[], gymnasium.Env] | Definition
"""What a user may name an environment by: an id, a callable that makes one, a definition in JAX."""


@overload
def make(env: Environment, seeds: Sequence[int], num_envs: int, compiled: Literal[False]) -> HostEnvironment: ...


@overload
def make(
    env: Environment, seeds: Sequence[int], num_envs: int, compiled: bool = True
) -> CompiledEnvironment | HostEnvironment: ...


def make(
    env: Environment, seeds: Sequence[int], num_envs: int, compiled: bool = True
) -> CompiledEnvironment | HostEnvironment:
    """`num_envs` copies of an environment for each seed.

    It is of the compiled form where there is one, and of the host form elsewhere or if `compiled` is False.

    >>> environment = make("CartPole-v1", seeds=[0, 1], num_envs=4)
    >>> state, observation = environment.reset()
    >>> observation.shape
    (2, 4, 4)
    """
    if num_envs < 1 or len(seeds) < 1:
        raise TrustaxError(f"at least one seed and one environment are needed, not {len(seeds)} and {num_envs}")
    if any(not 0 <= seed < 2**32 for seed in seeds):
        raise TrustaxError(f"seeds must be between 0 and 2**32 - 1, not {list(seeds)}")
    engine, source = _resolve(env)
    if engine == "native":
        wide = NativeEnvironment(DEFINITIONS.get(source, source), seeds, num_envs)
        return wide if compiled else Stepped(wide)
    if engine == "envpool":
        form = EnvPoolCompiled if compiled and can_compile() else EnvPoolHost
        return form(source, seeds, num_envs)
    return GymnasiumHost(source, seeds, num_envs)


def engine_of(env: Environment) -> str:
    """The engine that `make` would choose: one of `ENGINES`.

    >>> engine_of("Pendulum-v1"), engine_of("gymnasium:Pendulum-v1")
    ('native', 'gymnasium')
    """
    return _resolve(env)[0]


def _resolve(env: Environment) -> tuple[str, Any]:
    """The engine, and what that engine calls the environment."""
    if isinstance(env, str):
        return _resolve_id(env)
    # A class has its methods too, but is a callable that makes an environment.
    if isinstance(env, Definition) and not isinstance(env, type):
        return "native", env
    if callable(env):
        return "gymnasium", env
    raise TrustaxError(
        f"an environment is an id, a callable that makes a gymnasium.Env, or a JAX definition, "
        f"not a {type(env).__name__}"
    )


def _resolve_id(env: str) -> tuple[str, str]:
    prefix, colon, rest = env.partition(":")
    if not colon:
        for engine in ENGINES:
            if _has(engine, env):
                return engine, env
        raise TrustaxError(f"there is no environment {env!r}{_similar(env, ENGINES)}{_envpool_note()}")
    if prefix not in ENGINES or not rest:
        raise TrustaxError(
            f"{env!r} must be an id, or an engine and an id, as in 'gymnasium:Pendulum-v1'; the engines are "
            f"{', '.join(ENGINES)}"
        )
    if prefix == "envpool" and not envpool_ids():
        raise TrustaxError(f"{env!r}: {_INSTALL_ENVPOOL}")
    if not _has(prefix, rest):
        others = [engine for engine in ENGINES if engine != prefix and _has(engine, rest)]
        hint = f", but {' and '.join(others)} can run it" if others else _similar(rest, [prefix])
        raise TrustaxError(f"{prefix} has no environment {rest!r}{hint}")
    return prefix, rest


def _ids(engine: str) -> list[str]:
    return {
        "native": lambda: list(DEFINITIONS),
        "envpool": envpool_ids,
        "gymnasium": lambda: list(gymnasium.registry),
    }[engine]()


def _has(engine: str, env_id: str) -> bool:
    # "module:Env-v0" asks Gymnasium to import the module, which registers the environment only then.
    return env_id in _ids(engine) or (engine == "gymnasium" and ":" in env_id)


def _similar(env_id: str, engines: Sequence[str]) -> str:
    known = {candidate.lower(): candidate for engine in engines for candidate in _ids(engine)}
    matches = difflib.get_close_matches(env_id.lower(), known, n=3)
    return f"; did you mean {' or '.join(known[match] for match in matches)}?" if matches else ""


def _envpool_note() -> str:
    return "" if envpool_ids() else f" ({_INSTALL_ENVPOOL})"
