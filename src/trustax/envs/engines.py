"""Choose the engine of an environment, and make vectorized environments with it.

An id may have an engine as its prefix, as in `gymnasium:Pendulum-v1`. An id without a prefix uses the fastest of
`native` (JAX), `envpool` (C++) and `gymnasium` (Python) that has it. Some environments of `gymnax` (JAX) have the same
names but differ slightly, so `gymnax` is only used with its prefix.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, overload

import gymnasium

from trustax.envs.base import CompiledEnvironment, Engine, HostAdapter, HostEnvironment
from trustax.envs.envpool import envpool_has_images
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.jax_env import JaxEnv
from trustax.envs.registry import ENGINES, FOR_BARE_IDS, GYMNASIUM, GYMNAX, NATIVE, require_engine
from trustax.envs.workers import Workers
from trustax.errors import TrustaxError

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
    engine, source = resolve(env)
    environment = engine.make(source, seeds, num_envs, compiled)
    if not compiled and isinstance(environment, CompiledEnvironment):
        return HostAdapter(environment)
    return environment


def make_with_workers(env: Environment, seeds: Sequence[int], num_envs: int, workers: Workers) -> GymnasiumHost:
    """Make Gymnasium environments that are stepped in worker processes."""
    engine, source = resolve(env)
    if engine is not GYMNASIUM:
        raise TrustaxError(
            f"worker processes step environments of gymnasium, but {env} runs on {engine.name}, which needs none; "
            "set num_workers=0, or choose the engine with the prefix gymnasium:"
        )
    return GymnasiumHost(source, seeds, num_envs, workers=workers)


def make_for_training(
    env: Environment, seeds: Sequence[int], num_envs: int, workers: Workers, restarts: bool
) -> CompiledEnvironment | HostEnvironment:
    """Make the environments of a run, in worker processes if it has any; `restarts` says whether they must restart.

    An engine with `restarts_compiled = False` makes environments that cannot restart in their compiled form.
    """
    if workers.number:
        return make_with_workers(env, seeds, num_envs, workers)
    return make(env, seeds, num_envs, compiled=not restarts or getattr(resolve(env)[0], "restarts_compiled", True))


def env_id_of(env: Environment) -> str:
    """The id of an environment, as `run.json` stores it; that of an object is the name of its function or class.

    >>> from functools import partial
    >>> env_id_of("CartPole-v1"), env_id_of(gymnasium.Env), env_id_of(partial(gymnasium.make, "CartPole-v1"))
    ('CartPole-v1', 'Env', 'partial')
    """
    return env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)


def engine_of(env: Environment) -> str:
    """The name of the engine that `make` chooses.

    >>> engine_of("Pendulum-v1"), engine_of("gymnasium:Pendulum-v1"), engine_of("ALE/Breakout-v5")
    ('native', 'gymnasium', 'envpool')
    """
    return resolve(env)[0].name


def resumes_exactly(env: Environment) -> bool:
    """Whether a resumed run on an environment continues exactly, because its state can be saved.

    >>> resumes_exactly("CartPole-v1"), resumes_exactly("gymnasium:CartPole-v1")
    (True, False)
    """
    return resolve(env)[0].resumable


def is_written_in_jax(env: Environment) -> bool:
    """Whether an environment is compiled each time that it is made.

    >>> is_written_in_jax("CartPole-v1"), is_written_in_jax("gymnasium:CartPole-v1")
    (True, False)
    """
    return resolve(env)[0] in (NATIVE, GYMNAX)


def is_known(env_id: str) -> bool:
    """Whether `make` accepts the id; the run of a user's own object only has the object's name.

    >>> is_known("CartPole-v1"), is_known("MyEnvironment")
    (True, False)
    """
    try:
        return bool(_resolve_id(env_id))
    except TrustaxError:
        return False


def with_engine(env_id: str, name: str) -> str:
    """What to do to run an environment on the engine with this name.

    >>> with_engine("Pendulum-v1", "gymnasium")
    'use the id gymnasium:Pendulum-v1'
    >>> with_engine("Acrobot-v1", "mine")
    'use the id mine:Acrobot-v1 and install the package that has the engine mine'
    """
    engine = ENGINES.get(name)
    use = f"use the id {name}:{bare_id(env_id)}"
    if engine is None:
        return f"{use} and install the package that has the engine {name}"
    return use if engine.ids() else f"{use}; {_install(engine)}"


def imports_module(env_id: str) -> bool:
    """Whether making the environment imports a module that registers it; saved files must not cause that.

    >>> imports_module("gymnasium:my_module:Mine-v0"), imports_module("my_module:Mine-v0")
    (True, True)
    >>> imports_module("gymnasium:CartPole-v1"), imports_module("CartPole-v1")
    (False, False)
    """
    return ":" in bare_id(env_id)


def bare_id(env_id: str) -> str:
    """An id without its engine prefix.

    >>> bare_id("envpool:Hopper-v5"), bare_id("Hopper-v5"), bare_id("gymnasium:my_module:Mine-v0")
    ('Hopper-v5', 'Hopper-v5', 'my_module:Mine-v0')
    """
    engine, colon, rest = env_id.partition(":")
    return rest if colon and engine in ENGINES else env_id


def observes_images(env: Environment) -> bool:
    """Whether an environment is known to have image observations, without making it.

    >>> observes_images("CartPole-v1")
    False
    """
    if not isinstance(env, str):
        return isinstance(env, JaxEnv) and env.spec.is_image
    engine, bare = _resolve_id(env)
    return engine.name == "envpool" and envpool_has_images(bare)


def resolve(env: Environment) -> tuple[Engine, Any]:
    """The engine that runs an environment, and the argument of its `make`."""
    if isinstance(env, str):
        return _resolve_id(env)
    # A class also has the methods of a JaxEnv, but it is a callable that makes an environment.
    if isinstance(env, JaxEnv) and not isinstance(env, type):
        return NATIVE, env
    if isinstance(env, JaxEnv) and isinstance(env, type) and not issubclass(env, gymnasium.Env):
        raise TrustaxError(
            f"{env.__name__} is a class; an environment in JAX is an object, for example {env.__name__}()"
        )
    if callable(env):
        return GYMNASIUM, env
    if isinstance(env, gymnasium.Env):
        made = f"{type(env.unwrapped).__name__}()" if env.spec is None else f"gymnasium.make({env.spec.id!r})"
        raise TrustaxError(
            "training needs several copies of an environment, so pass a function that makes one, for example "
            f"lambda: {made}, not the environment itself"
        )
    if isinstance(env, gymnasium.vector.VectorEnv):
        made = "lambda: gymnasium.make(id)" if env.spec is None else repr(env.spec.id)
        raise TrustaxError(
            f"an environment must be a single one, which training copies num_envs times; pass {made}, not a vector "
            "environment"
        )
    name = type(env).__name__
    missing = [member for member in ("spec", "time_limit", "reset", "step", "observe") if not hasattr(env, member)]
    if len(missing) < 3:
        raise TrustaxError(f"{name} has no {' and no '.join(missing)}, which a trustax.JaxEnv needs")
    raise TrustaxError(
        f"an environment must be an id, a callable that makes a gymnasium.Env, or a trustax.JaxEnv, not a {name}"
    )


def _resolve_id(env: str) -> tuple[Engine, str]:
    prefix, colon, rest = env.partition(":")
    if not colon:
        return _engine_for_bare(env), env
    engine = ENGINES.get(prefix)
    if engine is None and rest and _is_module(prefix):
        return GYMNASIUM, env
    if engine is None and rest and prefix.partition(".")[0].isidentifier():
        raise TrustaxError(
            f"{env!r}: there is no engine and no module {prefix!r}; the engines are {', '.join(ENGINES)}, and a module "
            "of this folder is found with PYTHONPATH=."
        )
    if engine is None or not rest:
        raise TrustaxError(
            f"{env!r} must be an id, an engine and an id, like 'gymnasium:Pendulum-v1', or a module and an id that it "
            f"registers; the engines are {', '.join(ENGINES)}; a module of this folder is found with PYTHONPATH=."
        )
    require_engine(prefix, engine)
    if not engine.has(rest):
        if not engine.ids():
            raise TrustaxError(f"{env!r}: {_install(engine)}")
        others = [other.name for other in FOR_BARE_IDS if other is not engine and other.has(rest)]
        hint = f", but {' and '.join(others)} can run it" if others else _similar(rest, [engine])
        raise TrustaxError(f"{prefix} has no environment {rest!r}{hint}")
    return engine, rest


def _engine_for_bare(env_id: str) -> Engine:
    for engine in FOR_BARE_IDS:
        if engine.has(env_id):
            return engine
    if GYMNAX.has(env_id):
        raise TrustaxError(f"{env_id!r} is an environment of gymnax, which needs the prefix: gymnax:{env_id}")
    notes = [_install(engine) for engine in FOR_BARE_IDS if not engine.ids()]
    note = f" ({'; '.join(notes)})" if notes else ""
    own = f"; if a module of yours registers it, write my_module:{env_id}"
    raise TrustaxError(f"there is no environment {env_id!r}{_similar(env_id, FOR_BARE_IDS)}{note}{own}")


def _is_module(name: str) -> bool:
    """Whether a module exists, without importing anything: for a submodule, whether its package does."""
    package = name.partition(".")[0]
    return package.isidentifier() and find_spec(package) is not None


def _similar(env_id: str, engines: Iterable[Engine]) -> str:
    known = {candidate.lower(): candidate for engine in engines for candidate in engine.ids()}
    matches = difflib.get_close_matches(env_id.lower(), known, n=3)
    return f"; did you mean {' or '.join(known[match] for match in matches)}?" if matches else ""


def _install(engine: Engine) -> str:
    hint = getattr(engine, "install_hint", "install its package")
    return f"{engine.name} is not installed: {hint}"
