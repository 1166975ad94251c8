"""The trained agent: a policy, and the statistics that normalize its observations.

`predict` has the signature of Stable-Baselines3, so that tools written for it (`evaluate_policy`, recorders, callbacks)
work with an agent.
"""

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Int, Key

from trustax.errors import TrustaxError
from trustax.networks import NetworkSettings, Policy, architecture_of
from trustax.ops.distributions import Distribution
from trustax.ops.observations import flatten, is_structured
from trustax.ops.running_statistics import RunningStatistics
from trustax.settings import validated
from trustax.storage import pytree as checkpoint
from trustax.storage.export import export
from trustax.storage.hub import push
from trustax.storage.manifest import CheckpointError
from trustax.storage.specs import spec_from_json, spec_to_json
from trustax.types import BoxActions, DiscreteActions, EnvSpec, MultiDiscreteActions

if TYPE_CHECKING:
    from trustax.evaluation import EvaluationResult

KIND = "agent"
MAX_LAYERS = 100
"""Files with more hidden layers are refused: each costs 20 ms before any array is read."""
WITHOUT_CRITIC = "without_critic"
ENV_ID = "env_id"


class Agent:
    """A trained policy that maps observations to actions.

    >>> from trustax.networks import Architecture
    >>> from trustax.types import DiscreteActions
    >>> policy = Architecture(EnvSpec((3,), DiscreteActions(2))).init(jax.random.key(0))
    >>> agent = Agent(policy)
    >>> action, _ = agent.predict(np.zeros(3), deterministic=True)
    >>> int(action) in (0, 1)
    True
    """

    def __init__(
        self,
        policy: Policy,
        statistics: RunningStatistics | None = None,
        seed: int = 0,
        env_id: str | None = None,
        has_critic: bool = True,
    ) -> None:
        self.policy = policy
        self.statistics = statistics
        self.env_id = env_id
        """The environment of the run that trained the agent, if it is known."""
        self.has_critic = has_critic
        """Whether the policy has its critic; if not, all its values are 0."""
        self._key = jax.random.key(seed)
        self._num_calls = 0

    def __repr__(self) -> str:
        spec = self.spec
        actions = f"{type(spec.actions).__name__} with {spec.actions.num_outputs} outputs"
        normalized = "" if self.statistics is None else ", normalized"
        return (
            f"Agent({self.policy.architecture.network}, observations {spec.observation_shape}{normalized}, {actions})"
        )

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
        """Return the action for one observation, or actions for a batch of observations, and `state`, unchanged.

        Observations may be as the environment returns them, for example dictionaries, or flattened; a batch of
        dictionaries is a dictionary of batches or a list. Box actions are clipped to their bounds. `state` and
        `episode_start` are ignored; they belong to Stable-Baselines3's signature.
        """
        observations = self._as_array(observation)
        single = observations.shape == self.spec.observation_shape
        if not single and observations.shape[1:] != self.spec.observation_shape:
            batches = f"(n, {str(self.spec.observation_shape)[1:].replace(',)', ')')}"
            raise TrustaxError(
                f"an observation must have the shape {self.spec.observation_shape}, and a batch the shape {batches}, "
                f"not {observations.shape}"
            )
        self._num_calls += 1
        batch = observations[None] if single else observations
        if deterministic:
            actions = _mode(self.policy, self.statistics, batch)
        else:
            actions = _sample(self.policy, self.statistics, batch, self._key, self._num_calls)
        chosen = np.array(actions)  # a copy, since views of JAX's arrays are read-only
        return (chosen[0, ...] if single else chosen), state

    def require_fit(self, spec: EnvSpec, name: str) -> None:
        """Raise an error if the agent does not fit an environment. Bounds may differ: the agent keeps its own."""
        with_parts = self.spec.parts is not None and spec.parts is not None
        ours, theirs = (_describe(each, with_parts) for each in (self.spec, spec))
        if ours != theirs:
            raise TrustaxError(f"the agent has {ours}, but {name} has {theirs}")

    def _as_array(self, observation: Any) -> np.ndarray:
        parts = self.spec.parts
        if parts is not None:
            if parts[0].path and isinstance(observation, list) and observation and is_structured(parts, observation[0]):
                observation = np.stack([flatten(parts, each) for each in observation])
            elif is_structured(parts, observation):
                observation = flatten(parts, observation)
        try:
            array = np.asarray(observation)
            with np.errstate(invalid="ignore"):
                converted = array.astype(self.spec.observation_dtype, copy=False)
        except (TypeError, ValueError) as error:
            if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
                raise TrustaxError("predict takes an observation: observation, info = env.reset()") from error
            raise TrustaxError(
                f"an observation must be an array of shape {self.spec.observation_shape}, not a "
                f"{type(observation).__name__}; gymnasium.wrappers.FlattenObservation makes one"
            ) from error
        if array.dtype != converted.dtype == np.uint8 and not np.array_equal(array, converted):
            raise TrustaxError(
                f"an observation must hold whole numbers from 0 to 255, not {array.dtype} from {array.min():g} to "
                f"{array.max():g}; pass the image as the environment returns it"
            )
        return converted

    def export(self, path: str | Path, deterministic: bool = True) -> None:
        """Export the policy to one file that runs without Trustax: `policy.stablehlo` or `policy.onnx`.

        The file contains everything from the observation to the action, for batches of any size:
        `jax.export.deserialize(content).call(observation=batch)` in JAX, and
        `onnxruntime.InferenceSession(path).run(None, {"observation": batch})[0]` in ONNX, which needs
        `trustax[export]`. A structured observation has one input for each of its arrays, named by its keys with dots
        between them. With `deterministic=False` actions are sampled with the input `noise`: standard normal numbers
        for box actions, standard Gumbel numbers, such as those of `numpy.random.Generator.gumbel`, for discrete ones.
        """
        export(self.policy, self.statistics, Path(path), deterministic)

    def save(self, path: str | Path, with_critic: bool = True) -> None:
        """Save the agent to a folder; `trustax.load` reads it.

        Without the critic, which `predict` does not need, an agent takes half the space; its values are then 0.
        """
        with_critic = with_critic and self.has_critic
        architecture = self.policy.architecture
        header = {
            "kind": KIND,
            "spec": spec_to_json(architecture.spec),
            **{field.name: getattr(architecture, field.name) for field in fields(NetworkSettings)},
            "normalized": self.statistics is not None,
        }
        if self.env_id is not None:
            header |= {ENV_ID: self.env_id}
        if not with_critic:
            header |= {WITHOUT_CRITIC: True}
        policy = self.policy if with_critic else self.policy.without_critic()
        checkpoint.save(Path(path), _tree(policy, self.statistics), header)

    def push_to_hub(
        self,
        repo_id: str,
        run_dir: str | Path | None = None,
        evaluation: "EvaluationResult | None" = None,
        private: bool = False,
    ) -> str:
        """Upload the agent to the Hugging Face hub and return its address; `trustax.load("hf://user/name")` loads it.

        The model card shows how to load it and, if given, the settings and the learning curve of the run that trained
        it, and its evaluation. A repository that does not exist is created, for yourself alone if `private`. It needs
        `trustax[hub]` and a login: `hf auth login`.
        """
        return push(self.save, repo_id, None if run_dir is None else Path(run_dir), evaluation, private)


def _describe(spec: EnvSpec, with_parts: bool) -> str:
    """What must be equal in the specs of an agent and of its environment."""
    observations = f"observations of shape {spec.observation_shape}"
    if with_parts:
        parts = (f"{part}{f' from {part.starts}' if part.starts else ''}" for part in spec.parts or ())
        observations += f" made of {', '.join(parts)}"
    match actions := spec.actions:
        case DiscreteActions(start=start):
            details = f"numbered from {start}"
        case MultiDiscreteActions(counts=counts, starts=starts):
            details = f"of shape {actions.environment_shape} with {counts} choices numbered from {starts}"
        case BoxActions():
            details = f"of shape {actions.environment_shape}"
    return f"{observations} and {actions.num_outputs} outputs for {type(actions).__name__} {details}"


@jax.jit
def _mode(policy: Policy, statistics: RunningStatistics | None, observations: Array) -> Array:
    distribution = _distribution(policy, statistics, observations)
    return policy.architecture.spec.actions.for_environment(distribution.mode())


@jax.jit
def _sample(
    policy: Policy,
    statistics: RunningStatistics | None,
    observations: Array,
    key: Key[Array, ""],
    number: Int[Array, ""] | int,
) -> Array:
    """Sample actions; the key is folded in here, since each call of a compiled function takes time."""
    distribution = _distribution(policy, statistics, observations)
    return policy.architecture.spec.actions.for_environment(distribution.sample(jax.random.fold_in(key, number)))


def _distribution(policy: Policy, statistics: RunningStatistics | None, observations: Array) -> Distribution:
    normalized = observations if statistics is None else statistics.standardize(observations)
    return policy.batch(normalized)[0]


def load_agent(path: str | Path) -> Agent:
    """Load an agent from a folder that `Agent.save` wrote. No code from it is executed; corruption is detected."""
    folder = Path(path)
    header = checkpoint.read_header(folder)
    try:
        template = _template(header)
    except Exception as error:  # the file may contain anything
        raise CheckpointError(folder, f"holds no agent: {error}") from error
    tree = checkpoint.load(folder, template)
    has_critic = not header.get(WITHOUT_CRITIC)
    policy = tree["policy"] if has_critic else tree["policy"].with_zero_critic()
    return Agent(policy, tree["statistics"], env_id=header.get(ENV_ID), has_critic=has_critic)


def _template(header: dict[str, Any]) -> dict[str, Any]:
    """The pytree of an agent with this header, with shapes in place of arrays."""
    if header["kind"] != KIND:
        raise ValueError(f"it holds a {header['kind']}")
    if not isinstance(header.get(ENV_ID), str | None):
        raise ValueError(f"{ENV_ID} is not a string")
    spec = spec_from_json(header["spec"])
    architecture = architecture_of(_network_settings(header), spec)
    statistics = partial(RunningStatistics.init, spec.observation_shape) if header["normalized"] else lambda: None

    def tree() -> dict[str, Any]:
        policy = architecture.init(jax.random.key(0))
        return _tree(policy.without_critic() if header.get(WITHOUT_CRITIC) else policy, statistics())

    return jax.eval_shape(tree)


def _network_settings(header: dict[str, Any]) -> NetworkSettings:
    """The settings of an agent's network; agents of earlier versions have those of the default network."""
    names = [field.name for field in fields(NetworkSettings)]
    known = {name: header[name] for name in names if name in header or name == "hidden_sizes"}
    settings = NetworkSettings(**validated(NetworkSettings, known))
    check_layers(settings)
    return settings


def check_layers(settings: Any) -> None:
    """Refuse the settings of a network in a file that would take long to build."""
    count = len(getattr(settings, "hidden_sizes", ()))
    if count > MAX_LAYERS:
        raise ValueError(f"{count} hidden layers; files may have {MAX_LAYERS}")


def _tree(policy: Policy, statistics: RunningStatistics | None) -> dict[str, Any]:
    return {"policy": policy, "statistics": statistics}
