"""What defines an environment in JAX: pure functions on its own state, without batch axes and without autoreset."""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from trustax.errors import TrustaxError
from trustax.types import BoxActions, EnvSpec


@runtime_checkable
class JaxEnv(Protocol):
    """One environment in JAX, as a user may write it.

    A state is any pytree of arrays whose shapes and dtypes never change. An environment that is random while
    it runs keeps a key in its state: `reset` is given one.

    >>> from typing import ClassVar
    >>> from trustax.types import DiscreteActions
    >>> class Countdown:
    ...     "Three steps; the first action pays."
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
        """After how many steps an episode is truncated; None for never."""
        ...

    def reset(self, key: Any) -> Any:
        """The first state of an episode."""
        ...

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """The next state, the reward and whether the episode terminated there."""
        ...

    def observe(self, state: Any) -> Any:
        """What the policy sees of a state."""
        ...


@runtime_checkable
class GoalJaxEnv(JaxEnv, Protocol):
    """An environment whose episodes succeed or fail."""

    def succeeded(self, state: Any) -> Any:
        """Whether the goal is reached in a state."""
        ...


def require_sound(definition: JaxEnv) -> None:
    """Refuse functions that do not fit together, before a compiler does in its own words."""
    name, spec = type(definition).__name__, definition.spec
    zeros = jnp.zeros(spec.actions.shape, jnp.float32 if isinstance(spec.actions, BoxActions) else jnp.int32)
    state = jax.eval_shape(definition.reset, jax.random.key(0))
    stepped, reward, _ = jax.eval_shape(definition.step, state, spec.actions.for_environment(zeros))
    if (before := _kinds(state)) != (after := _kinds(stepped)):
        differing = [f"{old}, then {new}" for old, new in zip(before, after, strict=False) if old != new]
        raise TrustaxError(
            f"{name}.step must return a state of the shapes and types that reset gives: "
            f"{(differing or ['another number of arrays'])[0]}"
        )
    observation = jax.eval_shape(definition.observe, state)
    if observation.shape != spec.observation_shape:
        raise TrustaxError(
            f"{name}.observe gives the shape {observation.shape}, but its spec says {spec.observation_shape}"
        )
    if reward.shape != ():
        raise TrustaxError(f"{name}.step must return one number as the reward, not the shape {reward.shape}")


def _kinds(state: Any) -> list[str]:
    """Every array of a state in words."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return [f"state{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}" for path, leaf in leaves]
