"""Choose the engine of an environment, and make vectorized environments with it.

An id may have an engine as its prefix, as in `gymnasium:Pendulum-v1`. An id without a prefix uses the fastest of
`native` (JAX), `envpool` (C++) and `gymnasium` (Python) that has it. Some environments of `gymnax` (JAX) have the same
names but differ slightly, so `gymnax` is only used with its prefix.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import gymnasium

from trustax.envs.atari import envpool_id, is_atari
from trustax.envs.base import CompiledEnvironment, HostAdapter, HostEnvironment
from trustax.envs.envpool import envpool_ids, make_envpool
from trustax.envs.gymnasium import GymnasiumHost, family_of
from trustax.envs.gymnax import gymnax_ids, make_gymnax
from trustax.envs.jax_env import JaxEnv
from trustax.envs.vectorize import JAX_ENVS, VectorizedJaxEnv
from trustax.errors import TrustaxError

DEFAULT_ENGINES = ("native", "envpool", "gymnasium")
ENGINES = (*DEFAULT_ENGINES, "gymnax")

Environment = str | Callable[[], gymnasium.Env] | JaxEnv
"""How users specify an environment: by an id, a callable that makes one, or a `JaxEnv`."""


@overload
def make(env: Environment, seeds: Sequence[int], num_envs: int, compiled: Literal[False]) -> HostEnvironment: ...


@overload
def make(
    env: Environment, seeds: Sequence[int], num_envs: int, compiled: bool = True
) -> CompiledEnvironment | HostEnvironment: ...


def make(
    env: Environment, seeds: Sequence[int], num_envs: int, compiled: bool = True
) -> CompiledEnvironment | HostEnvironment:
    """Make `num_envs` copies of an environment for each seed.

    The result is a compiled environment if the engine has that form and `compiled` is True, else a host environment.

    >>> environment = make("CartPole-v1", seeds=[0, 1], num_envs=4)
    >>> state, observation = environment.reset()
    >>> observation.shape
    (2, 4, 4)
    """
    if num_envs < 1 or len(seeds) < 1:
        raise TrustaxError(f"at least one seed and one environment are required, not {len(seeds)} and {num_envs}")
    if any(not 0 <= seed < 2**32 for seed in seeds):
        raise TrustaxError(f"seeds must be between 0 and 2**32 - 1, not {list(seeds)}")
    engine, source = _resolve(env)
    if engine == "envpool":
        return make_envpool(source, seeds, num_envs, compiled)
    if engine == "gymnasium":
        return GymnasiumHost(source, seeds, num_envs)
    if isinstance(source, str):
        source = JAX_ENVS[source] if engine == "native" else make_gymnax(source)
    vectorized = VectorizedJaxEnv(source, seeds, num_envs)
    return vectorized if compiled else HostAdapter(vectorized)


def engine_of(env: Environment) -> str:
    """The engine that `make` chooses, one of `ENGINES`.

    >>> engine_of("Pendulum-v1"), engine_of("gymnasium:Pendulum-v1"), engine_of("ALE/Breakout-v5")
    ('native', 'gymnasium', 'envpool')
    """
    return _resolve(env)[0]


def is_known(env_id: str) -> bool:
    """Whether `make` accepts the id; the run of a user's own object only has the object's name.

    >>> is_known("CartPole-v1"), is_known("MyEnvironment")
    (True, False)
    """
    try:
        return bool(_resolve_id(env_id))
    except TrustaxError:
        return False


def imports_module(env_id: str) -> bool:
    """Whether making the environment imports a module that registers it; saved files must not cause that.

    >>> imports_module("gymnasium:my_module:Mine-v0"), imports_module("gymnasium:CartPole-v1")
    (True, False)
    """
    return ":" in bare_id(env_id)


def bare_id(env_id: str) -> str:
    """An id without its engine prefix.

    >>> bare_id("envpool:Hopper-v5"), bare_id("Hopper-v5"), bare_id("gymnasium:my_module:Mine-v0")
    ('Hopper-v5', 'Hopper-v5', 'my_module:Mine-v0')
    """
    engine, colon, rest = env_id.partition(":")
    return rest if colon and engine in ENGINES else env_id


def observes_images(env_id: str) -> bool:
    """Whether an id is known to have image observations, without making the environment.

    >>> observes_images("CartPole-v1")
    False
    """
    bare = bare_id(env_id)
    # JAX environments first: the imports that list the Atari games take half a second.
    return bare not in JAX_ENVS and is_atari(bare)


def _resolve(env: Environment) -> tuple[str, Any]:
    """The engine, and the id or object that it makes the environment from."""
    if isinstance(env, str):
        return _resolve_id(env)
    # A class also has the methods of a JaxEnv, but it is a callable that makes an environment.
    if isinstance(env, JaxEnv) and not isinstance(env, type):
        return "native", env
    if callable(env):
        return "gymnasium", env
    raise TrustaxError(
        f"an environment must be an id, a callable that makes a gymnasium.Env, or a trustax.envs.JaxEnv, "
        f"not a {type(env).__name__}"
    )


def _resolve_id(env: str) -> tuple[str, str]:
    prefix, colon, rest = env.partition(":")
    if not colon:
        for engine in DEFAULT_ENGINES:
            name = envpool_id(env) if engine == "envpool" else env
            if _has(engine, name):
                return engine, name
        if _has("gymnax", env):
            raise TrustaxError(f"{env!r} is an environment of gymnax, which needs the prefix: gymnax:{env}")
        note = "" if envpool_ids() else f" ({_install('envpool')})"
        raise TrustaxError(f"there is no environment {env!r}{_similar(env, DEFAULT_ENGINES)}{note}")
    if prefix not in ENGINES or not rest:
        raise TrustaxError(
            f"{env!r} must be an id, or an engine and an id, as in 'gymnasium:Pendulum-v1'; the engines are "
            f"{', '.join(ENGINES)}; if {prefix!r} is a module that registers it: gymnasium:{env}"
        )
    if not _ids(prefix):
        raise TrustaxError(f"{env!r}: {_install(prefix)}")
    if not _has(prefix, rest):
        others = [engine for engine in DEFAULT_ENGINES if engine != prefix and _has(engine, rest)]
        hint = f", but {' and '.join(others)} can run it" if others else _similar(rest, [prefix])
        raise TrustaxError(f"{prefix} has no environment {rest!r}{hint}")
    return prefix, rest


def _ids(engine: str) -> list[str]:
    return {
        "native": lambda: list(JAX_ENVS),
        "envpool": envpool_ids,
        "gymnasium": lambda: list(gymnasium.registry),
        "gymnax": gymnax_ids,
    }[engine]()


def _has(engine: str, env_id: str) -> bool:
    # For "module:Env-v0" Gymnasium imports the module, which registers the environment only then. So do families.
    imported = engine == "gymnasium" and (":" in env_id or family_of(env_id) is not None)
    return env_id in _ids(engine) or imported


def _similar(env_id: str, engines: Sequence[str]) -> str:
    known = {candidate.lower(): candidate for engine in engines for candidate in _ids(engine)}
    matches = difflib.get_close_matches(env_id.lower(), known, n=3)
    return f"; did you mean {' or '.join(known[match] for match in matches)}?" if matches else ""


def _install(engine: str) -> str:
    return f'{engine} is not installed: pip install "trustax[{engine}]"'
