"""The interface of environments written in JAX: pure functions of a state, without batch axes or autoreset."""

from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from trustax.errors import TrustaxError
from trustax.types import BoxActions, EnvSpec


@runtime_checkable
class JaxEnv(Protocol):
    """A single environment in JAX; users can write their own.

    The state is a pytree of arrays with fixed shapes and dtypes. An environment with random steps stores a key in its
    state, which it gets in `reset`.

    >>> from typing import ClassVar
    >>> from trustax.types import DiscreteActions
    >>> class Countdown:
    ...     "Three steps; action 0 earns a reward of 1."
    ...
    ...     spec: ClassVar[EnvSpec] = EnvSpec((1,), DiscreteActions(2))
    ...     time_limit: ClassVar[int | None] = None
    ...
    ...     def reset(self, key):
    ...         return jnp.array(3)
    ...
    ...     def step(self, state, action):
    ...         return state - 1, jnp.where(action == 0, 1.0, 0.0), state == 1
    ...
    ...     def observe(self, state):
    ...         return jnp.array([state], jnp.float32)
    >>> from trustax.envs.vectorize import VectorizedJaxEnv
    >>> environment = VectorizedJaxEnv(Countdown(), seeds=[0, 1], num_envs=4)
    >>> state, observation = environment.reset()
    >>> observation.shape
    (2, 4, 1)
    """

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def time_limit(self) -> int | None:
        """The number of steps after which an episode is truncated; None for no limit."""
        ...

    def reset(self, key: Any) -> Any:
        """Return the first state of an episode."""
        ...

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """Return the next state, the reward and whether the episode terminated."""
        ...

    def observe(self, state: Any) -> Any:
        """Return the observation of a state."""
        ...


@runtime_checkable
class GoalJaxEnv(JaxEnv, Protocol):
    """An environment in JAX with a goal, whose episodes succeed or fail."""

    def succeeded(self, state: Any) -> Any:
        """Return whether a state reaches the goal."""
        ...


@runtime_checkable
class DrawnJaxEnv(JaxEnv, Protocol):
    """An environment in JAX that can be recorded. `frames_per_second`, if it has one, is the speed of its videos."""

    def render(self, state: Any) -> Any:
        """Return a picture of a state as a NumPy array of uint8 with the axes height, width and 3; it is not traced."""
        ...


def validate(definition: JaxEnv) -> None:
    """Raise an error if the functions do not fit together, with a clearer message than the compiler's."""
    try:
        _validate(definition)
    except SystemExit as error:  # an environment must not end the program
        raise TrustaxError(f"{type(definition).__name__} raised SystemExit: {error}") from error


def _validate(definition: JaxEnv) -> None:
    name, spec = type(definition).__name__, definition.spec
    _check_members(name, spec, definition.time_limit)
    zeros = jnp.zeros(spec.actions.shape, jnp.float32 if isinstance(spec.actions, BoxActions) else jnp.int32)
    state = jax.eval_shape(definition.reset, jax.random.key(0))
    returned = jax.eval_shape(definition.step, state, spec.actions.for_environment(zeros))
    if not isinstance(returned, tuple) or len(returned) != 3:
        number = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
        raise TrustaxError(f"{name}.step must return the 3 values state, reward and terminated, not {number}")
    next_state, reward, terminated = returned
    if (before := _describe_arrays(state)) != (after := _describe_arrays(next_state)):
        differing = [
            f"{old} from reset, {new} from step" for old, new in zip(before, after, strict=False) if old != new
        ]
        raise TrustaxError(
            f"{name}.step must return a state with the shapes and dtypes of the state from reset: "
            f"{(differing or ['the number of arrays differs'])[0]}"
        )
    observation = jax.eval_shape(definition.observe, state)
    if observation.shape != spec.observation_shape:
        raise TrustaxError(
            f"{name}.observe returns the shape {observation.shape}, but its spec declares {spec.observation_shape}"
        )
    for what, scalar in (("reward", reward), ("terminated", terminated)):
        if scalar.shape != ():
            raise TrustaxError(f"{name}.step must return a scalar {what}, not an array of shape {scalar.shape}")


def _check_members(name: str, spec: Any, time_limit: Any) -> None:
    """Raise an error for a spec or a time limit that training cannot use."""
    if not isinstance(spec, EnvSpec):
        raise TrustaxError(f"{name}.spec must be a trustax.EnvSpec, not {spec!r}; it declares observations and actions")
    is_whole = isinstance(time_limit, Integral) and not isinstance(time_limit, bool)
    if time_limit is not None and not (is_whole and time_limit >= 1):
        raise TrustaxError(
            f"{name}.time_limit must be a whole number of at least 1, or None for no limit, not {time_limit!r}"
        )


def _describe_arrays(state: Any) -> list[str]:
    """Path, dtype and shape of every array in a state."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return [f"state{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}" for path, leaf in leaves]
