"""The trained thing a user keeps: a policy, and the statistics by which it sees.

`predict` has the signature of Stable-Baselines3, so that tools written for it (`evaluate_policy`, recorders, callbacks)
work with it.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from trustax import checkpoint
from trustax.errors import TrustaxError
from trustax.manifest import CheckpointError
from trustax.networks import Architecture, Policy
from trustax.normalize import RunningStatistics
from trustax.observations import Part, flatten, is_structured
from trustax.types import Actions, BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

KIND = "agent"
KINDS_OF_ACTIONS: dict[str, Callable[..., Actions]] = {
    "count": DiscreteActions,
    "counts": MultiDiscreteActions,
    "low": BoxActions,
}
"""By a field that no other kind has."""


class Agent:
    """Observations in, actions out.

    >>> policy = Architecture(EnvSpec((3,), DiscreteActions(2))).init(jax.random.key(0))
    >>> agent = Agent(policy)
    >>> action, _ = agent.predict(np.zeros(3), deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    def __init__(self, policy: Policy, statistics: RunningStatistics | None = None, seed: int = 0) -> None:
        self.policy = policy
        self.statistics = statistics
        self._key = jax.random.key(seed)
        self._num_calls = 0

    @property
    def spec(self) -> EnvSpec:
        return self.policy.architecture.spec

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """The action for one observation, or the actions for a batch of them; and `state`, unchanged.

        An observation may be as the environment returns it, a dictionary for example, or flattened already. Box
        actions are clipped to their bounds. `state` and `episode_start` are there for recurrent policies.
        """
        observations = self._as_array(observation)
        single = observations.shape == self.spec.observation_shape
        if not single and observations.shape[1:] != self.spec.observation_shape:
            raise TrustaxError(
                f"an observation must have the shape {self.spec.observation_shape}, or one axis before it for a "
                f"batch, not {observations.shape}"
            )
        self._num_calls += 1
        actions = _choose(
            self.policy,
            self.statistics,
            observations[None] if single else observations,
            jax.random.fold_in(self._key, self._num_calls),
            deterministic,
        )
        chosen = np.asarray(actions)
        return (chosen[0, ...] if single else chosen), state

    def _as_array(self, observation: Any) -> np.ndarray:
        parts = self.spec.parts
        if parts is not None and is_structured(parts, observation):
            observation = flatten(parts, observation)
        try:
            return np.asarray(observation, self.spec.observation_dtype)
        except (TypeError, ValueError) as error:
            raise TrustaxError(
                f"an observation must be an array of shape {self.spec.observation_shape}, not a "
                f"{type(observation).__name__}; gymnasium.wrappers.FlattenObservation makes one"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the agent into a folder; see `load`."""
        architecture = self.policy.architecture
        header = {
            "kind": KIND,
            "spec": spec_to_json(architecture.spec),
            "hidden_sizes": list(architecture.hidden_sizes),
            "normalized": self.statistics is not None,
        }
        checkpoint.save(Path(path), _tree(self.policy, self.statistics), header)


@partial(jax.jit, static_argnames="deterministic")
def _choose(
    policy: Policy,
    statistics: RunningStatistics | None,
    observations: Array,
    key: Key[Array, ""],
    deterministic: bool,
) -> Array:
    seen = observations if statistics is None else statistics.standardize(observations)
    distribution, _ = policy.batch(seen)
    action = distribution.mode() if deterministic else distribution.sample(key)
    return policy.architecture.spec.actions.for_environment(action)


def load(path: str | Path) -> Agent:
    """The agent in a folder that `Agent.save` wrote. Nothing in it is executed, and damage is detected."""
    folder = Path(path)
    header = checkpoint.read_header(folder)
    try:
        if header["kind"] != KIND:
            raise ValueError(f"it holds a {header['kind']}")
        architecture = Architecture(spec_from_json(header["spec"]), tuple(header["hidden_sizes"]))
        normalized = bool(header["normalized"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(folder, f"holds no agent: {error}") from error
    spec = architecture.spec
    template = jax.eval_shape(
        lambda: _tree(
            architecture.init(jax.random.key(0)),
            RunningStatistics.init(spec.observation_shape) if normalized else None,
        )
    )
    tree = checkpoint.load(folder, template)
    return Agent(tree["policy"], tree["statistics"])


def _tree(policy: Policy, statistics: RunningStatistics | None) -> dict[str, Any]:
    return {"policy": policy, "statistics": statistics}


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """An EnvSpec as plain JSON values."""
    return asdict(spec)


def spec_from_json(values: dict[str, Any]) -> EnvSpec:
    """The spec that `spec_to_json` wrote. The kind of its actions shows in the names of their fields."""
    actions, parts = values["actions"], values.get("parts")
    (kind,) = (kind for field, kind in KINDS_OF_ACTIONS.items() if field in actions)
    return EnvSpec(
        tuple(values["observation_shape"]),
        kind(**_with_tuples(actions)),
        values["observation_dtype"],
        None if parts is None else tuple(Part(**_with_tuples(part)) for part in parts),
    )


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
