"""Gymnax environments, built in or written by others, as `JaxEnv`s.

Notes:

- A step of Gymnax returns only `terminated`; the time limit is the parameter `max_steps_in_episode`. It becomes the
  `time_limit`, and an episode that ends for both reasons is reported as terminated and truncated.
- Before version 1.0, environments treated the time limit as a termination, by overriding `is_terminal`. Environments
  that still override it get a limit that they never reach.
- The dtypes of its observation spaces are not always those of the observations. All observations become float32, except
  uint8 images. MinAtar's 10 x 10 images are not uint8, so a policy treats them as vectors.
- Gymnax is imported on first use, because it is optional and its import takes two seconds.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, Shaped

from trustax.errors import TrustaxError
from trustax.networks import can_convolve
from trustax.types import BoxActions, DiscreteActions, EnvSpec

NO_LIMIT = 2**30
"""More steps than any episode has, but still a 32-bit integer."""


def gymnax_ids() -> list[str]:
    """All ids in Gymnax; empty if Gymnax is not installed."""
    try:
        import gymnax
    except ImportError:
        return []
    return list(gymnax.registered_envs)


class GymnaxState(NamedTuple):
    """The state of the Gymnax environment, its observation, and the key of the next steps.

    The observation is stored because Gymnax computes it in `step_env`, sometimes from the step's key or action.
    """

    inner: Any
    observation: Shaped[Array, "..."]
    key: Key[Array, ""]


class GymnaxEnv:
    """A Gymnax environment as a `JaxEnv`, with the given or its default `params`.

    >>> import gymnax
    >>> env, params = gymnax.make("CartPole-v1")
    >>> environment = GymnaxEnv(env, params.replace(max_steps_in_episode=200))
    >>> environment.spec.observation_shape, environment.time_limit
    ((4,), 200)
    """

    def __init__(self, env: Any, params: Any = None) -> None:
        terminates_at_limit = _terminates_at_limit(env)
        params = env.default_params if params is None else params
        limit = getattr(params, "max_steps_in_episode", None)
        self.time_limit = None if limit is None else int(limit)
        self._env = env
        self._params = params.replace(max_steps_in_episode=NO_LIMIT) if terminates_at_limit and limit else params
        self.spec = _spec_of(env.name, env.observation_space(params), env.action_space(params))
        self._action_shape = env.action_space(params).shape

    def reset(self, key: Key[Array, ""]) -> GymnaxState:
        reset_key, key = jax.random.split(key)
        observation, inner = self._env.reset_env(reset_key, self._params)
        # Gymnax initializes many states with Python numbers, whose types would change in the first step.
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
    """Make a registered environment with its default parameters."""
    import gymnax

    try:
        return GymnaxEnv(*gymnax.make(env_id))
    except OSError as error:  # MNISTBandit-bsuite downloads its images
        raise TrustaxError(f"gymnax:{env_id} cannot be made: {' '.join(str(error).split())}") from error


def _terminates_at_limit(env: Any) -> bool:
    """Whether the environment reports its time limit as a termination; raises an error if it is not supported."""
    from gymnax.environments.environment import Environment

    if not isinstance(env, Environment):
        raise TrustaxError(
            f"GymnaxEnv takes a gymnax Environment, not a {type(env).__name__}; "
            "wrappers are not supported, because they reset inside step"
        )
    if type(env).is_truncated is not Environment.is_truncated:
        raise TrustaxError(
            f"{env.name} overrides is_truncated, but only max_steps_in_episode may truncate an episode; "
            "remove the override, or write a trustax.envs.JaxEnv"
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
