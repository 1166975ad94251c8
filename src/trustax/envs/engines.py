"""Which engine runs an environment, and the environment made wide by it.

An id may name its engine with a prefix, as in `gymnasium:Pendulum-v1`. A bare id goes to the fastest of `native` (JAX),
`envpool` (C++) and `gymnasium` (Python) that has it. `gymnax` (JAX) has environments of the same names that are not
quite the same, so it runs only what is asked of it.
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

FOR_BARE_IDS = ("native", "envpool", "gymnasium")
ENGINES = (*FOR_BARE_IDS, "gymnax")

Environment = str | Callable[[], gymnasium.Env] | JaxEnv
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
    if engine == "envpool":
        return make_envpool(source, seeds, num_envs, compiled)
    if engine == "gymnasium":
        return GymnasiumHost(source, seeds, num_envs)
    if isinstance(source, str):
        source = JAX_ENVS[source] if engine == "native" else make_gymnax(source)
    wide = VectorizedJaxEnv(source, seeds, num_envs)
    return wide if compiled else HostAdapter(wide)


def engine_of(env: Environment) -> str:
    """The engine that `make` would choose: one of `ENGINES`.

    >>> engine_of("Pendulum-v1"), engine_of("gymnasium:Pendulum-v1"), engine_of("ALE/Breakout-v5")
    ('native', 'gymnasium', 'envpool')
    """
    return _resolve(env)[0]


def is_known(env_id: str) -> bool:
    """Whether the id alone makes an environment; a run of an object of the user's has only the object's name.

    >>> is_known("CartPole-v1"), is_known("MyEnvironment")
    (True, False)
    """
    try:
        return bool(_resolve_id(env_id))
    except TrustaxError:
        return False


def imports_module(env_id: str) -> bool:
    """Whether to make it means to import a module that registers it, which no file may ask for.

    >>> imports_module("gymnasium:my_module:Mine-v0"), imports_module("gymnasium:CartPole-v1")
    (True, False)
    """
    return ":" in bare_id(env_id)


def bare_id(env_id: str) -> str:
    """An id without its engine.

    >>> bare_id("envpool:Hopper-v5"), bare_id("Hopper-v5"), bare_id("gymnasium:my_module:Mine-v0")
    ('Hopper-v5', 'Hopper-v5', 'my_module:Mine-v0')
    """
    engine, colon, rest = env_id.partition(":")
    return rest if colon and engine in ENGINES else env_id


def observes_images(env_id: str) -> bool:
    """Whether an id names an environment with images, as far as can be told without making it.

    >>> observes_images("CartPole-v1")
    False
    """
    bare = bare_id(env_id)
    # JAX environments come first: importing what knows Atari's games takes half a second.
    return bare not in JAX_ENVS and is_atari(bare)


def _resolve(env: Environment) -> tuple[str, Any]:
    """The engine, and what that engine calls the environment."""
    if isinstance(env, str):
        return _resolve_id(env)
    # A class has its methods too, but is a callable that makes an environment.
    if isinstance(env, JaxEnv) and not isinstance(env, type):
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
        for engine in FOR_BARE_IDS:
            name = envpool_id(env) if engine == "envpool" else env
            if _has(engine, name):
                return engine, name
        if _has("gymnax", env):
            raise TrustaxError(f"{env!r} is an environment of gymnax, which runs only with its prefix: gymnax:{env}")
        note = "" if envpool_ids() else f" ({_install('envpool')})"
        raise TrustaxError(f"there is no environment {env!r}{_similar(env, FOR_BARE_IDS)}{note}")
    if prefix not in ENGINES or not rest:
        raise TrustaxError(
            f"{env!r} must be an id, or an engine and an id, as in 'gymnasium:Pendulum-v1'; the engines are "
            f"{', '.join(ENGINES)}; if {prefix!r} is a module that registers it: gymnasium:{env}"
        )
    if not _ids(prefix):
        raise TrustaxError(f"{env!r}: {_install(prefix)}")
    if not _has(prefix, rest):
        others = [engine for engine in FOR_BARE_IDS if engine != prefix and _has(engine, rest)]
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
    # "module:Env-v0" asks Gymnasium to import the module, which registers the environment only then. So do families.
    imported = engine == "gymnasium" and (":" in env_id or family_of(env_id) is not None)
    return env_id in _ids(engine) or imported


def _similar(env_id: str, engines: Sequence[str]) -> str:
    known = {candidate.lower(): candidate for engine in engines for candidate in _ids(engine)}
    matches = difflib.get_close_matches(env_id.lower(), known, n=3)
    return f"; did you mean {' or '.join(known[match] for match in matches)}?" if matches else ""


def _install(engine: str) -> str:
    return f'{engine} is not installed: pip install "trustax[{engine}]"'
