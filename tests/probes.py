"""What algorithms are tested on: six probe environments whose values and best actions are known, and random rollouts.

Each probe asks for one thing more than the one before it, so the first that fails says what is broken: the value loss,
the use of the observation, discounting, the policy gradient, both together, several actions at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trustax.networks import Policy
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions, Rollout

DISCRETE = DiscreteActions(2)
BOX = BoxActions((-2.0,), (2.0,))
MULTI_DISCRETE = MultiDiscreteActions((2, 3), (0, 0))


class Known(NamedTuple):
    """What a perfect learner says of one observation; `action` is None where all actions are alike."""

    observation: float
    value: float
    action: float | tuple[int, ...] | None = None


class ConstantReward:
    """One step, one observation, reward 1."""

    spec: ClassVar = EnvSpec((1,), DISCRETE)
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jnp.zeros(())

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        return state, jnp.ones(()), jnp.array(True)

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        return [Known(0, 1)]


class ObservedReward:
    """One step; the reward is the observation, -1 or 1."""

    spec: ClassVar = EnvSpec((1,), DISCRETE)
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jax.random.rademacher(key, dtype=jnp.float32)

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        return state, state, jnp.array(True)

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        return [Known(-1, -1), Known(1, 1)]


class DelayedReward:
    """Two steps, of which the second pays 1; the observation counts them."""

    spec: ClassVar = EnvSpec((1,), DISCRETE)
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jnp.zeros(())

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        return state + 1, state, state == 1

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        return [Known(0, discount), Known(1, 1)]


@dataclass(frozen=True)
class ActionReward:
    """One step, one observation. Action 1 pays 1 and action 0 costs 1; in a box, 1 - (a - ½)² is paid."""

    spec: EnvSpec
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jnp.zeros(())

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        if self.spec.actions == DISCRETE:
            return state, jnp.where(action == 1, 1.0, -1.0), jnp.array(True)
        return state, 1 - (action[0] - 0.5) ** 2, jnp.array(True)

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        return [Known(0, 1, 1 if self.spec.actions == DISCRETE else 0.5)]


@dataclass(frozen=True)
class ObservedActionReward:
    """One step, observation -1 or 1. The action of its sign pays 1, the other costs 1; in a box the best is o/2."""

    spec: EnvSpec
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jax.random.rademacher(key, dtype=jnp.float32)

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        if self.spec.actions == DISCRETE:
            return state, jnp.where(action == 1, state, -state), jnp.array(True)
        return state, 1 - (action[0] - state / 2) ** 2, jnp.array(True)

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        if self.spec.actions == DISCRETE:
            return [Known(-1, 1, 0), Known(1, 1, 1)]
        return [Known(-1, 1, -0.5), Known(1, 1, 0.5)]


class BothActionsReward:
    """One step, observation -1 or 1. Two choices: 1 is paid if the first follows its sign and the second is 2."""

    spec: ClassVar = EnvSpec((1,), MULTI_DISCRETE)
    time_limit: ClassVar = None

    def reset(self, key: Any) -> Any:
        return jax.random.rademacher(key, dtype=jnp.float32)

    def step(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        both = ((action[0] == 1) == (state > 0)) & (action[1] == 2)
        return state, both.astype(jnp.float32), jnp.array(True)

    def observe(self, state: Any) -> Any:
        return state[None]

    def known(self, discount: float) -> list[Known]:
        return [Known(-1, 1, (0, 2)), Known(1, 1, (1, 2))]


PROBES = {
    "constant-reward": ConstantReward(),
    "observed-reward": ObservedReward(),
    "delayed-reward": DelayedReward(),
    "action-reward": ActionReward(EnvSpec((1,), DISCRETE)),
    "action-reward-box": ActionReward(EnvSpec((1,), BOX)),
    "observed-action-reward": ObservedActionReward(EnvSpec((1,), DISCRETE)),
    "observed-action-reward-box": ObservedActionReward(EnvSpec((1,), BOX)),
    "both-actions-reward": BothActionsReward(),
}

QUICK_COMPILE = {"xla_backend_optimization_level": 0}
"""For `jax.jit`: programs that run for a moment need no optimized machine code, and most of a test is compilation."""

SPECS = {
    "discrete": EnvSpec((3,), DiscreteActions(3)),
    "box": EnvSpec((3,), BoxActions((-1.0, -1.0), (1.0, 1.0))),
    "multi-discrete": EnvSpec((3,), MultiDiscreteActions((3, 2), (0, 0))),
}


@contextmanager
def operation_by_operation(policy: Policy) -> Iterator[None]:
    """Nothing is compiled as a whole: Python loops, and no fusion that could round differently.

    The policy is called once before, because the layout of its parameters is found out by tracing.
    """
    jax.eval_shape(policy, jnp.zeros(policy.architecture.spec.observation_shape))
    with jax.disable_jit():
        yield


def random_rollout(spec: EnvSpec, horizon: int = 10, num_envs: int = 2, seed: int = 0) -> Rollout:
    """Random experience with both kinds of ending, each followed by the row that is no transition."""
    generator = np.random.default_rng(seed)
    shape = (horizon, num_envs)
    ended, terminated, weight = np.zeros((3, *shape), bool)
    for t in range(horizon):
        weight[t] = True if t == 0 else ~ended[t - 1]
        ended[t] = weight[t] & (generator.random(num_envs) < 0.3)
        terminated[t] = ended[t] & (generator.random(num_envs) < 0.5)
    if spec.is_image:
        observation = generator.integers(0, 256, (horizon + 1, num_envs, *spec.observation_shape), np.uint8)
    else:
        observation = generator.normal(size=(horizon + 1, num_envs, *spec.observation_shape)).astype(np.float32)
    if isinstance(spec.actions, DiscreteActions):
        action = generator.integers(0, spec.actions.count, shape, np.int32)
    elif isinstance(spec.actions, MultiDiscreteActions):
        action = generator.integers(0, spec.actions.counts, (*shape, *spec.actions.shape), np.int32)
    else:
        action = generator.normal(size=(*shape, *spec.actions.shape)).astype(np.float32)
    return Rollout(
        observation=jnp.asarray(observation),
        action=jnp.asarray(action),
        reward=jnp.asarray(generator.normal(size=shape) * weight, jnp.float32),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(ended & ~terminated),
        weight=jnp.asarray(weight, jnp.float32),
    )
