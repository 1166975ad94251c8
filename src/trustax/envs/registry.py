"""The engines by name: the four of Trustax, those that a program registers, and those of installed packages."""

from collections.abc import Callable, Collection, Sequence

import gymnasium

from trustax.envs.atari import envpool_id
from trustax.envs.base import CompiledEnvironment, Engine, HostEnvironment
from trustax.envs.envpool import envpool_ids, make_envpool
from trustax.envs.gymnasium import GymnasiumHost
from trustax.envs.gymnax import gymnax_ids, make_gymnax
from trustax.envs.jax_env import JaxEnv
from trustax.envs.making import family_of
from trustax.envs.vectorize import JAX_ENVS, VectorizedJaxEnv
from trustax.errors import TrustaxError
from trustax.settings import Registry


class NativeEngine:
    """The JAX environments of Trustax, and a user's own `JaxEnv` objects."""

    name = "native"
    resumable = True

    def ids(self) -> Collection[str]:
        return list(JAX_ENVS)

    def has(self, env_id: str) -> bool:
        return env_id in JAX_ENVS

    def make(self, env_id: str | JaxEnv, seeds: Sequence[int], num_envs: int, compiled: bool) -> CompiledEnvironment:
        definition = JAX_ENVS[env_id] if isinstance(env_id, str) else env_id
        return VectorizedJaxEnv(definition, seeds, num_envs)


class GymnaxEngine:
    """The JAX environments of Gymnax."""

    name = "gymnax"
    resumable = True
    install_hint = 'pip install "trustax[gymnax]"'

    def ids(self) -> Collection[str]:
        return gymnax_ids()

    def has(self, env_id: str) -> bool:
        return env_id in gymnax_ids()

    def make(self, env_id: str, seeds: Sequence[int], num_envs: int, compiled: bool) -> CompiledEnvironment:
        return VectorizedJaxEnv(make_gymnax(env_id), seeds, num_envs)


class EnvPoolEngine:
    """The C++ environments of EnvPool; Atari games also by Gymnasium's ids."""

    name = "envpool"
    resumable = False
    restarts_compiled = False  # compiled code uses only one pool
    install_hint = 'pip install "trustax[envpool]"'

    def ids(self) -> Collection[str]:
        return envpool_ids()

    def has(self, env_id: str) -> bool:
        return envpool_id(env_id) in envpool_ids()

    def make(
        self, env_id: str, seeds: Sequence[int], num_envs: int, compiled: bool
    ) -> CompiledEnvironment | HostEnvironment:
        return make_envpool(envpool_id(env_id), seeds, num_envs, compiled)


class GymnasiumEngine:
    """Every environment that Gymnasium can make, and callables that make one."""

    name = "gymnasium"
    resumable = False

    def ids(self) -> Collection[str]:
        return list(gymnasium.registry)

    def has(self, env_id: str) -> bool:
        # Gymnasium imports the module of "module:Env-v0", which then registers the id. Families work the same way.
        return env_id in gymnasium.registry or ":" in env_id or family_of(env_id) is not None

    def make(
        self, env_id: str | Callable[[], gymnasium.Env], seeds: Sequence[int], num_envs: int, compiled: bool
    ) -> HostEnvironment:
        return GymnasiumHost(env_id, seeds, num_envs)


NATIVE, ENVPOOL, GYMNASIUM, GYMNAX = NativeEngine(), EnvPoolEngine(), GymnasiumEngine(), GymnaxEngine()

FOR_BARE_IDS: tuple[Engine, ...] = (NATIVE, ENVPOOL, GYMNASIUM)
"""The engines that run an id without a prefix, the fastest first."""

ENGINES: Registry[Engine] = Registry(
    "engine", "trustax.engines", {engine.name: engine for engine in (*FOR_BARE_IDS, GYMNAX)}
)
"""Engines by prefix; `trustax.engines` is the entry-point group."""


def register_engine(name: str, engine: Engine) -> None:
    """Make an engine available as a prefix: with the name `mine`, ids such as `mine:Env-v0` go to it."""
    require_engine(name, engine)
    ENGINES.register(name, engine)


def require_engine(name: str, engine: object) -> None:
    """Refuse an object that lacks a member of `Engine`."""
    missing = [member for member in ("name", "resumable", "ids", "has", "make") if not hasattr(engine, member)]
    if missing or isinstance(engine, type):
        lack = f"has no {', '.join(missing)}" if missing else "is a class, not an object"
        raise TrustaxError(f"the engine {name!r} {lack}; see trustax.envs.Engine")
