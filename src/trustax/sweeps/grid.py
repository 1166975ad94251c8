"""A grid of methods, environments and settings, expanded to the runs of a sweep.

Settings that learners of one run may differ in, such as the learning rate, become learners of the same run, so they
compile once and train side by side. All other settings with several values become runs of their own.

>>> from trustax.algorithms import MCPO, PPO
>>> settings = {"memory_size": [5, 10], "learning_rate": [1e-4, 1e-3]}
>>> grid = Grid({"mcpo": MCPO(), "ppo": PPO()}, ["CartPole-v1"], settings)
>>> [(run.algorithm_name, run.num_seeds) for run, _ in grid.expand()]
[('mcpo', 2), ('mcpo', 2), ('ppo', 2)]
>>> [cell.label for _, cells in grid.expand() for cell in cells][:3]
['mcpo memory_size=5 learning_rate=0.0001', 'mcpo memory_size=5 learning_rate=0.001', \
'mcpo memory_size=10 learning_rate=0.0001']
"""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_type_hints

from trustax.algorithms import Algorithm
from trustax.errors import TrustaxError, refuse_unknown
from trustax.run import Run
from trustax.settings import PerLearner, validated

MakeRun = Callable[[str, Algorithm, str], Run]
"""name of the method, algorithm, environment → run"""
RUN_SETTINGS = [one.name for one in dataclasses.fields(Run) if one.name not in ("algorithm", "env_id", "repeat_seeds")]


class Cell(NamedTuple):
    """A method with one choice of settings on one environment: some learners of a run."""

    method: str
    choice: Mapping[str, Any]
    """the settings that vary in the grid, with their values here"""
    env_id: str
    learners: range

    @property
    def label(self) -> str:
        """The method and the settings that vary."""
        return " ".join([self.method, *(f"{name}={_short(value)}" for name, value in self.choice.items())])


def default_run(_: str, algorithm: Algorithm, env_id: str) -> Run:
    return Run(algorithm=algorithm, env_id=env_id)


@dataclass(frozen=True)
class Grid:
    """Every method on every environment with every combination of settings."""

    methods: Mapping[str, Algorithm]
    """by the name that labels show"""
    env_ids: Sequence[str]
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """setting → its values; a setting applies to the methods that have it"""
    make_run: MakeRun = default_run
    """the run before its settings are changed"""

    def __post_init__(self) -> None:
        if not self.methods or not self.env_ids:
            raise TrustaxError("a sweep needs at least one method and one environment")
        known = {name for method in self.methods.values() for name in settings_of(method)}
        refuse_unknown("the sweep", [name for name in self.settings if name not in known], sorted(known))
        for name, values in self.settings.items():
            if not values:
                raise TrustaxError(f"{name} has no value; give one or several")
            if len(set(map(repr, values))) < len(values):
                raise TrustaxError(f"{name} has a value twice: {', '.join(map(str, values))}")
        for name in ("num_seeds", "seed", "total_timesteps"):
            if len(self.settings.get(name, ())) > 1:
                raise TrustaxError(f"{name} must have one value in a sweep, not {len(self.settings[name])}")

    def expand(self) -> list[tuple[Run, list[Cell]]]:
        """The runs, each with the cells that its learners belong to."""
        return [
            self._run(name, env_id, choice, mapped)
            for env_id in self.env_ids
            for name, method in self.methods.items()
            for mapped in [self._mapped(method)]
            for choice in self._choices(method, without=mapped)
        ]

    def _mapped(self, method: Algorithm) -> list[str]:
        """The settings with several values that learners of one run can differ in."""
        kinds = get_type_hints(type(method))
        return [name for name, values in self.settings.items() if len(values) > 1 and kinds.get(name) == PerLearner]

    def _choices(self, method: Algorithm, without: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Every combination of the other settings that the method has."""
        names = [name for name in self.settings if name in settings_of(method) and name not in without]
        for values in itertools.product(*(self.settings[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def _run(self, name: str, env_id: str, choice: Mapping[str, Any], mapped: Sequence[str]) -> tuple[Run, list[Cell]]:
        run = with_choice(self.make_run(name, self.methods[name], env_id), choice)
        combinations = list(itertools.product(*(self.settings[one] for one in mapped)))
        seeds = run.num_seeds
        per_learner = {
            one: tuple(combination[index] for combination in combinations for _ in range(seeds))
            for index, one in enumerate(mapped)
        }
        algorithm: Any = run.algorithm
        run = replace(
            run,
            algorithm=replace(algorithm, **per_learner),
            num_seeds=seeds * len(combinations),
            repeat_seeds=len(combinations),
        )
        cells = [
            Cell(
                name,
                self._varying({**choice, **dict(zip(mapped, combination, strict=True))}),
                env_id,
                range(index * seeds, (index + 1) * seeds),
            )
            for index, combination in enumerate(combinations)
        ]
        return run, cells

    def _varying(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with several values, in the order of the grid."""
        return {name: choice[name] for name, values in self.settings.items() if name in choice and len(values) > 1}


def with_choice(run: Run, choice: Mapping[str, Any]) -> Run:
    """The run with other settings, of its own or of its algorithm."""
    algorithm: Any = run.algorithm
    own = validated(Run, {name: value for name, value in choice.items() if name in RUN_SETTINGS})
    others = validated(type(algorithm), {name: value for name, value in choice.items() if name not in own})
    return replace(run, algorithm=replace(algorithm, **others), **own)


def settings_of(method: Algorithm) -> list[str]:
    return [*RUN_SETTINGS, *(one.name for one in dataclasses.fields(method))]  # type: ignore[arg-type]


def short_hash(definition: Any) -> str:
    """Eight hexadecimal digits that depend on a definition in JSON values, the same in every process."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:8]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
