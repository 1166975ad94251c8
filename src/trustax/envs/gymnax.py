"""Gymnax: environments in JAX, its own and those that others wrote to its interface, as definitions of ours.

What to know of it:

- A step of Gymnax says `terminated` only; the time limit stands beside it, in `max_steps_in_episode`. That is our time
  limit, and an episode that ends by both is reported as both.
- Before version 1.0 an environment counted the time limit as a termination, in an `is_terminal` of its own. One that
  still has its own is given a limit that it never reaches.
- The dtypes of its observation spaces are not always those of the observations. All become float32, but for images of
  bytes. MinAtar's images of ten by ten are not of bytes, so a policy takes them as vectors.
- Gymnax is imported when first needed, since it may be absent and takes two seconds.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, Shaped

from trustax.errors import TrustaxError
from trustax.networks import can_convolve
from trustax.types import BoxActions, DiscreteActions, EnvSpec

NEVER = 2**30
"""More steps than an episode has, and still a number of 32 bits."""


def gymnax_ids() -> list[str]:
    """Every id that Gymnax knows; none where Gymnax is not installed."""
    try:
        import gymnax
    except ImportError:
        return []
    return list(gymnax.registered_envs)


class GymnaxState(NamedTuple):
    """The environment's own state, what is seen of it, and the key of the steps to come.

    The observation is kept because Gymnax makes it while it steps, at times from the step's key or action.
    """

    inner: Any
    observation: Shaped[Array, "..."]
    key: Key[Array, ""]


class GymnaxEnv:
    """A Gymnax environment as a `JaxEnv`; without `params` it has its default ones.

    >>> import gymnax
    >>> env, params = gymnax.make("CartPole-v1")
    >>> definition = GymnaxEnv(env, params.replace(max_steps_in_episode=200))
    >>> definition.spec.observation_shape, definition.time_limit
    ((4,), 200)
    """

    def __init__(self, env: Any, params: Any = None) -> None:
        counts_the_limit = _counts_the_limit(env)
        params = env.default_params if params is None else params
        limit = getattr(params, "max_steps_in_episode", None)
        self.time_limit = None if limit is None else int(limit)
        self._env = env
        self._params = params.replace(max_steps_in_episode=NEVER) if counts_the_limit and limit else params
        self.spec = _spec_of(env.name, env.observation_space(params), env.action_space(params))
        self._action_shape = env.action_space(params).shape

    def reset(self, key: Key[Array, ""]) -> GymnaxState:
        reset_key, key = jax.random.split(key)
        observation, inner = self._env.reset_env(reset_key, self._params)
        # Gymnax starts many states from Python numbers, whose types would change with the first step.
        inner = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), inner)
        return GymnaxState(inner, observation.astype(self.spec.observation_dtype), key)

    def step(
        self, state: GymnaxState, action: Shaped[Array, "..."]
    ) -> tuple[GymnaxState, Float[Array, ""], Bool[Array, ""]]:
        step_key, key = jax.random.split(state.key)
        observation, inner, reward, terminated, _ = self._env.step_env(
            step_key, state.inner, action.reshape(self._action_shape), self._params
        )
        inner = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.inner)
        new = GymnaxState(inner, observation.astype(self.spec.observation_dtype), key)
        return new, jnp.asarray(reward, jnp.float32), jnp.asarray(terminated, bool)

    def observe(self, state: GymnaxState) -> Shaped[Array, "..."]:
        return state.observation


def make_gymnax(env_id: str) -> GymnaxEnv:
    """A registered environment, with its default parameters."""
    import gymnax

    try:
        return GymnaxEnv(*gymnax.make(env_id))
    except OSError as error:  # MNISTBandit-bsuite fetches its images from the web
        raise TrustaxError(f"gymnax:{env_id} cannot be made: {' '.join(str(error).split())}") from error


def _counts_the_limit(env: Any) -> bool:
    """Whether the environment reports its time limit as a termination; one that cannot run here is refused."""
    from gymnax.environments.environment import Environment

    if not isinstance(env, Environment):
        raise TrustaxError(
            f"GymnaxEnv takes a gymnax Environment, not a {type(env).__name__}; "
            "wrappers have no place here, since their steps reset by themselves"
        )
    if type(env).is_truncated is not Environment.is_truncated:
        raise TrustaxError(
            f"{env.name} has an is_truncated of its own, but only max_steps_in_episode may truncate an episode; "
            "leave is_truncated as Gymnax has it, or write a trustax.envs.JaxEnv"
        )
    return type(env).is_terminal is not Environment.is_terminal


def _spec_of(name: str, observations: Any, actions: Any) -> EnvSpec:
    from gymnax.environments.spaces import Box, Discrete

    if not isinstance(observations, Box):
        raise TrustaxError(f"gymnax:{name}: observations must be a Box, not {type(observations).__name__}")
    is_image = observations.dtype == np.uint8 and can_convolve(tuple(observations.shape))
    dtype = "uint8" if is_image else "float32"
    if isinstance(actions, Discrete):
        return EnvSpec(tuple(observations.shape), DiscreteActions(int(actions.n)), dtype)
    if isinstance(actions, Box) and np.issubdtype(actions.dtype, np.floating):
        low, high = (np.broadcast_to(np.asarray(x), actions.shape).ravel() for x in (actions.low, actions.high))
        return EnvSpec(tuple(observations.shape), BoxActions(tuple(low.tolist()), tuple(high.tolist())), dtype)
    raise TrustaxError(f"gymnax:{name}: actions must be Discrete or a Box of floats, not {type(actions).__name__}")
