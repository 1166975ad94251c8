"""`Run`: the complete definition of an experiment, for the command line, `run.json`, checkpoints and sweeps."""

import dataclasses
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from trustax.algorithms import ALGORITHMS, Algorithm, name_of
from trustax.errors import TrustaxError
from trustax.networks import NETWORKS, NetworkSettings
from trustax.networks.registry import AUTO
from trustax.settings import per_learner_values, setting, validated
from trustax.storage.atomic import jsonable, write_atomic
from trustax.storage.reading import read_json

RUN_FILE = "run.json"

ADDED_LATER = {
    "restart_interval": 0,
    "repeat_seeds": 1,
    "env_shards": 1,
    "start_from": "",
    "switch_every": "minibatch",
    "kl_cost_max_target": 0.0,
    "kl_target_growth": 0.0,
    "kl_target_action_growth": 0.0,
    "unrewarded_advantages": "standardized",
    "trust_region_sharpness": 1.0,
    "kl_estimator": "exact",
    "network": "auto",
    "activation": "tanh",
    "layer_norm": False,
    "shared_torso": False,
    "learning_rate_schedule": "linear",
    "clip_range_schedule": "constant",
    "schedule_boundaries": (0.5, 0.75),
    "initial_log_std": 0.0,
    "initial_mean_scale": 1.0,
}
"""Fields that files of earlier versions lack, with the value that those versions implied."""

SomeAlgorithm = TypeVar("SomeAlgorithm", bound=Algorithm)


@dataclass(frozen=True, kw_only=True)
class Run(Generic[SomeAlgorithm]):
    """The definition of an experiment: the algorithm, the environment and the settings of training."""

    algorithm: SomeAlgorithm
    """The algorithm with its hyperparameters."""
    env_id: str
    """A Gymnasium id; the prefix native:, envpool:, gymnasium: or gymnax: selects an engine."""
    total_timesteps: int = setting(1_000_000, minimum=1)
    """Environment steps per seed, rounded down to whole iterations of num_envs * horizon steps."""
    num_seeds: int = setting(1, minimum=1)
    """Number of independent learners, trained in parallel."""
    seed: int = 0
    """Seed of the first learner; the others use the seeds that follow."""
    num_envs: int = setting(4, minimum=1)
    """Number of environments per learner."""
    horizon: int = setting(2048, minimum=1)
    """Steps per environment in one iteration (T in the paper)."""
    normalize_observations: bool = True
    """Standardize observations with running statistics; images are never normalized."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return. Reported returns are always raw."""
    bootstrap_truncation: bool = True
    """Bootstrap from the value of the last state at a time limit. False treats a time limit as a termination."""
    restart_interval: int = setting(0, minimum=0)
    """Iterations between restarts of environments that cannot be saved, to resume exactly; 0 means never."""
    repeat_seeds: int = setting(1, minimum=1)
    """Number of groups of learners with the same seeds, to compare hyperparameters that differ between learners."""
    env_shards: int = setting(1, minimum=1)
    """Number of devices that share the environments of each learner; the results depend on it."""
    start_from: str = ""
    """The agent whose policy all learners start from: an agent, a run, zoo:NAME or hf://USER/NAME."""

    def __post_init__(self) -> None:
        if isinstance(self.algorithm, type):
            name = self.algorithm.__name__
            raise TrustaxError(
                f"algorithm must be an object: {name}() or {name}(learning_rate=1e-3), not the class {name}"
            )
        if not isinstance(self.algorithm, Algorithm):
            raise TrustaxError(f"algorithm must be an object, for example MCPO(memory_size=10), not {self.algorithm!r}")
        settings = vars(self.algorithm)
        if (checked := validated(type(self.algorithm), settings)) != settings:
            object.__setattr__(self, "algorithm", type(self.algorithm)(**checked))
        if isinstance(self.algorithm, NetworkSettings) and self.algorithm.network != AUTO:
            NETWORKS.find(self.algorithm.network)
        for name, value in validated(Run, vars(self)).items():
            object.__setattr__(self, name, value)
        if not 0 <= self.seed <= 2**32 - self.num_seeds:
            raise TrustaxError(f"seed must be between 0 and 2**32 - num_seeds, not {self.seed}")
        if self.num_seeds % self.repeat_seeds:
            raise TrustaxError(
                f"num_seeds is {self.num_seeds}, which is not a multiple of repeat_seeds = {self.repeat_seeds}; each "
                f"repetition needs the same number of learners"
            )
        for name, values in per_learner_values(self.algorithm).items():
            if len(values) != self.num_seeds:
                raise TrustaxError(
                    f"{name} has {len(values)} values, but num_seeds is {self.num_seeds}; give one value for all "
                    f"learners, or one for each"
                )
        if self.num_envs % self.env_shards:
            raise TrustaxError(
                f"num_envs is {self.num_envs}, which is not a multiple of env_shards = {self.env_shards}; each "
                "device needs the same number of environments"
            )
        if self.num_iterations >= 2**31:
            raise TrustaxError(
                f"total_timesteps is {self.total_timesteps:,}, which are {self.num_iterations:,} iterations; a run has "
                "fewer than 2**31 iterations: lower total_timesteps, or raise horizon"
            )
        minibatches = getattr(self.algorithm, "num_minibatches", 1)
        if self.env_shards > 1 and minibatches * self.env_shards > self.batch_size:
            raise TrustaxError(
                f"num_minibatches is {minibatches}, but each of the {self.env_shards} devices has only "
                f"{self.batch_size // self.env_shards} samples; use fewer minibatches or a longer horizon"
            )
        if minibatches > self.batch_size:
            raise TrustaxError(
                f"num_minibatches is {minibatches}, but an iteration has only num_envs * horizon = "
                f"{self.batch_size} samples; use fewer minibatches or a longer horizon"
            )

    def require_one_iteration(self) -> None:
        """Refuse an iteration that is longer than the run: a horizon given by mistake may take hours."""
        if self.total_timesteps < self.batch_size:
            raise TrustaxError(
                f"total_timesteps is {self.total_timesteps:,}, but one iteration has num_envs * horizon = "
                f"{self.num_envs:,} * {self.horizon:,} = {self.batch_size:,} steps; lower horizon, or raise "
                "total_timesteps to at least that"
            )

    @property
    def batch_size(self) -> int:
        """Environment steps per learner in one iteration."""
        return self.num_envs * self.horizon

    @property
    def num_iterations(self) -> int:
        return max(1, self.total_timesteps // self.batch_size)

    @property
    def seeds(self) -> Sequence[int]:
        """The seed of each learner."""
        distinct = range(self.seed, self.seed + self.num_seeds // self.repeat_seeds)
        return distinct if self.repeat_seeds == 1 else [*distinct] * self.repeat_seeds

    @property
    def learner_names(self) -> list[str]:
        """A short name for each learner: its seed and, if seeds repeat, the number of the repetition.

        >>> from trustax.algorithms import PPO
        >>> Run(algorithm=PPO(), env_id="CartPole-v1", num_seeds=4, repeat_seeds=2).learner_names
        ['0_0', '1_0', '0_1', '1_1']
        """
        distinct = self.num_seeds // self.repeat_seeds
        suffixes = [f"_{index // distinct}" if self.repeat_seeds > 1 else "" for index in range(self.num_seeds)]
        return [f"{seed}{suffix}" for seed, suffix in zip(self.seeds, suffixes, strict=True)]

    @property
    def algorithm_name(self) -> str:
        return name_of(self.algorithm)


def to_json(run: Run) -> dict[str, Any]:
    """Convert a run to plain JSON values."""
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    for name in ("env_shards", "start_from"):
        if fields[name] == ADDED_LATER[name]:
            del fields[name]  # other runs keep the files and the hashes of earlier versions
    settings = dataclasses.asdict(run.algorithm)
    return jsonable(fields | {"algorithm": {"name": run.algorithm_name} | settings})


def settings_of(run: Run, without: Collection[str]) -> dict[str, Any]:
    """The settings of a run and its algorithm in one dictionary, except those named in `without`."""
    values = to_json(run)
    algorithm = values.pop("algorithm")
    return {name: value for name, value in (values | algorithm).items() if name not in without}


def from_json(values: Any) -> Run:
    """Convert the output of `to_json` back to a run; raise an error for anything else."""
    try:
        values = dict(values)
        settings = dict(values.pop("algorithm"))
        algorithm = ALGORITHMS.find(settings.pop("name"))
        settings = _added_later(algorithm) | _renamed(algorithm, settings)
        return Run(algorithm=algorithm(**validated(algorithm, settings)), **_added_later(Run) | values)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TrustaxError(f"not a Trustax run: {error}") from error


def _renamed(algorithm: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of earlier versions under their present names."""
    settings = dict(settings)
    if "decay_learning_rate" in settings and not hasattr(algorithm, "decay_learning_rate"):
        decays = settings.pop("decay_learning_rate")
        if not isinstance(decays, bool):
            raise TrustaxError(f"decay_learning_rate must be True or False, not {decays!r}")
        settings = {"learning_rate_schedule": "linear" if decays else "constant"} | settings
    if "kl_target_batch_size" in settings and hasattr(algorithm, "kl_target_growth"):
        batch_size = settings.pop("kl_target_batch_size")
        if batch_size not in (0, 8192):
            raise TrustaxError(f"kl_target_batch_size was 0 or 8192 in earlier versions, not {batch_size!r}")
        settings = {"kl_target_growth": 0.5 if batch_size else 0.0} | settings
    return settings


def _added_later(kind: type) -> dict[str, Any]:
    """The fields of a dataclass that files of earlier versions lack, with their values."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in ADDED_LATER.items() if name in names}


def write_run(run: Run, folder: Path) -> None:
    """Write the definition of a run to its folder."""
    write_atomic(folder / RUN_FILE, json.dumps(to_json(run), indent=2) + "\n")


def read_run(folder: Path) -> Run:
    """Read the definition of the run in a folder."""
    path = folder / RUN_FILE
    try:
        return from_json(read_json(path))
    except FileNotFoundError:
        if not folder.exists():
            raise TrustaxError(f"there is no run at {folder}") from None
        raise TrustaxError(f"{folder} is not a run folder: it has no {RUN_FILE}") from None
    except OSError as error:
        raise TrustaxError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, TrustaxError) as error:
        raise TrustaxError(f"{path} cannot be read: {error}") from error
