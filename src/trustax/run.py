"""Run: one frozen dataclass that *is* an experiment: command line, file, checkpoint header, cell of a sweep."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from trustax.algorithms import ALGORITHMS, Algorithm, name_of
from trustax.errors import TrustaxError
from trustax.whole import write_whole

RUN_FILE = "run.json"

SomeAlgorithm = TypeVar("SomeAlgorithm", bound=Algorithm)


@dataclass(frozen=True, kw_only=True)
class Run(Generic[SomeAlgorithm]):
    """What is trained, on what, for how long."""

    algorithm: SomeAlgorithm
    """The method and its hyperparameters."""
    env_id: str
    """A Gymnasium id; native:, envpool:, gymnasium: or gymnax: before it chooses an engine."""
    total_timesteps: int = 1_000_000
    """Environment steps of each seed, rounded down to whole iterations of num_envs * horizon."""
    num_seeds: int = 1
    """Independent learners, trained side by side."""
    seed: int = 0
    """The first seed; the others count up from it."""
    num_envs: int = 4
    """Environments of each learner."""
    horizon: int = 2048
    """Steps of each environment in one iteration (T in the paper)."""
    normalize_observations: bool = True
    """Standardize observations by running statistics; images are never normalized."""
    normalize_rewards: bool = True
    """Divide rewards by the running deviation of the discounted return. Reported returns are always raw."""
    bootstrap_truncation: bool = True
    """Count the value of what would have followed a time limit. False treats a time limit as a termination."""
    restart_interval: int = 0
    """Iterations after which environments that cannot be saved all begin anew, to be resumed exactly; 0: never."""

    def __post_init__(self) -> None:
        for name in ("total_timesteps", "num_seeds", "num_envs", "horizon"):
            if (value := getattr(self, name)) < 1:
                raise TrustaxError(f"{name} must be at least 1, not {value}")
        if self.restart_interval < 0:
            raise TrustaxError(f"restart_interval must be at least 0, not {self.restart_interval}")
        if not 0 <= self.seed <= 2**32 - self.num_seeds:
            raise TrustaxError(f"seed must be between 0 and 2**32 - num_seeds, not {self.seed}")
        _check_ranges(self.algorithm)
        minibatches = getattr(self.algorithm, "num_minibatches", 1)
        if minibatches > self.batch_size:
            raise TrustaxError(
                f"num_minibatches is {minibatches}, but an iteration has only num_envs * horizon = "
                f"{self.batch_size} samples; take fewer minibatches or a longer horizon"
            )

    @property
    def batch_size(self) -> int:
        """Environment steps of one learner in one iteration."""
        return self.num_envs * self.horizon

    @property
    def num_iterations(self) -> int:
        return max(1, self.total_timesteps // self.batch_size)

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.num_seeds)

    @property
    def algorithm_name(self) -> str:
        return name_of(self.algorithm)


COUNTS = [
    "memory_size",
    "num_epochs",
    "num_minibatches",
    "write_interval",
    "cg_iterations",
    "line_search_steps",
    "value_iterations",
    "value_epochs",
    "eigen_interval",
]
FRACTIONS = ["discount", "gae_lambda", "momentum", "statistics_decay"]


def _check_ranges(algorithm: Algorithm) -> None:
    """One vocabulary for all methods, so one table of what makes sense."""
    for name, value in dataclasses.asdict(algorithm).items():  # type: ignore[call-overload]
        if name in COUNTS and value < 1:
            raise TrustaxError(f"{name} must be at least 1, not {value}")
        if name in FRACTIONS and not 0 <= value <= 1:
            raise TrustaxError(f"{name} must be between 0 and 1, not {value}")
        if name == "dropout" and not 0 <= value < 1:
            raise TrustaxError(f"dropout must be at least 0 and less than 1, not {value}")
        if name == "hidden_sizes" and not all(width >= 1 for width in value):
            raise TrustaxError(f"hidden_sizes must be at least 1 each, not {value}")
        if isinstance(value, float) and name != "initial_log_std" and not value >= 0:
            raise TrustaxError(f"{name} must be a number of at least 0, not {value}")


def to_json(run: Run) -> dict[str, Any]:
    """The run as plain JSON values."""
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    settings = dataclasses.asdict(run.algorithm)
    return fields | {"algorithm": {"name": run.algorithm_name} | settings}


def from_json(values: Any) -> Run:
    """The run that `to_json` wrote; anything else is refused."""
    try:
        values = dict(values)
        settings = dict(values.pop("algorithm"))
        algorithm = ALGORITHMS[settings.pop("name")]
        if "hidden_sizes" in settings:
            settings["hidden_sizes"] = tuple(settings["hidden_sizes"])
        return Run(algorithm=algorithm(**settings), **values)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TrustaxError(f"this is no run of Trustax: {error}") from error


def write_run(run: Run, folder: Path) -> None:
    """Leave the definition in the run's folder."""
    write_whole(folder / RUN_FILE, json.dumps(to_json(run), indent=2) + "\n")


def read_run(folder: Path) -> Run:
    """The definition of the run in a folder."""
    path = folder / RUN_FILE
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise TrustaxError(f"{folder} is no run folder: it has no {RUN_FILE}") from None
    except (OSError, ValueError, RecursionError, TrustaxError) as error:
        raise TrustaxError(f"{path} cannot be read: {error}") from error
