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
from trustax.settings import PerLearner, per_learner_values, validated

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
    label: str
    """the method and the settings that vary"""


@dataclass(frozen=True)
class Grid:
    """Every method on every environment with every combination of settings."""

    methods: Mapping[str, Algorithm]
    """by the name that labels show"""
    env_ids: Sequence[str]
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """setting → its values; a setting applies to the methods that have it"""
    make_run: MakeRun | None = None
    """makes the run whose settings are changed; None starts from the defaults"""

    def __post_init__(self) -> None:
        if not self.methods or not self.env_ids:
            raise TrustaxError("a sweep needs at least one method and one environment")
        require_different(self.env_ids)
        known = {name for method in self.methods.values() for name in setting_names(method)}
        refuse_unknown("the sweep", [name for name in self.settings if name not in known], sorted(known))
        for name, values in self.settings.items():
            if not values:
                raise TrustaxError(f"{name} has no value; give one or several")
            if any(value in values[:index] for index, value in enumerate(values)):
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
        names = [name for name in self.settings if name in setting_names(method) and name not in without]
        for values in itertools.product(*(self.settings[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def _run(self, name: str, env_id: str, choice: Mapping[str, Any], mapped: Sequence[str]) -> tuple[Run, list[Cell]]:
        products = itertools.product(*(self.settings[one] for one in mapped))
        combinations = [dict(zip(mapped, values, strict=True)) for values in products]
        run = self._chosen(name, env_id, {**choice, **combinations[0]})
        run.require_one_iteration()
        seeds = run.num_seeds
        cells = []
        for index, one in enumerate(combinations):
            varying = self._varying({**choice, **one})
            learners = range(index * seeds, (index + 1) * seeds)
            cells.append(Cell(name, varying, env_id, learners, self._label(name, varying)))
        return side_by_side(run, combinations), cells

    def _chosen(self, name: str, env_id: str, choice: Mapping[str, Any]) -> Run:
        """The run of a method with a choice of settings."""
        method = self.methods[name]
        if self.make_run is not None:
            return with_choice(self.make_run(name, method, env_id), choice)
        # Made at once: a method may need other settings than the defaults, such as one seed for each learning rate.
        return Run(env_id=env_id, **_fields(method, choice))

    def _varying(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with several values, in the order of the grid."""
        return {name: choice[name] for name, values in self.settings.items() if name in choice and len(values) > 1}

    def _label(self, method: str, choice: Mapping[str, Any]) -> str:
        return " ".join([method, *(f"{name}={_short(value, self.settings[name])}" for name, value in choice.items())])


def with_choice(run: Run, choice: Mapping[str, Any]) -> Run:
    """The run with other settings, of its own or of its algorithm."""
    return replace(run, **_fields(run.algorithm, choice))


def _fields(algorithm: Any, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run that a choice of settings changes, with the algorithm."""
    own = validated(Run, {name: value for name, value in choice.items() if name in RUN_SETTINGS})
    others = validated(type(algorithm), {name: value for name, value in choice.items() if name not in own})
    return {"algorithm": replace(algorithm, **others), **own}


def side_by_side(run: Run, combinations: Sequence[Mapping[str, Any]]) -> Run:
    """One run with all learners of a run once per combination of settings that learners may differ in."""
    count = len(combinations)
    kept = {name: values * count for name, values in per_learner_values(run.algorithm).items()}
    own = {name: tuple(one[name] for one in combinations for _ in range(run.num_seeds)) for name in combinations[0]}
    algorithm: Any = run.algorithm
    return replace(run, algorithm=replace(algorithm, **kept | own), num_seeds=run.num_seeds * count, repeat_seeds=count)


def setting_names(method: Algorithm) -> list[str]:
    return [*RUN_SETTINGS, *(one.name for one in dataclasses.fields(method))]  # type: ignore[arg-type]


def short_hash(definition: Any) -> str:
    """Eight hexadecimal digits that depend on a definition in JSON values, the same in every process."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:8]


def require_different(names: Sequence[str]) -> None:
    """Raise an error for a method or an environment that a sweep has twice: every seed would count twice."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise TrustaxError(f"the sweep has {name} twice; give it once, and raise num_seeds for more seeds")


def _short(value: Any, others: Sequence[Any]) -> str:
    """A value with few digits; with all of them if another value would look the same.

    >>> _short(0.25, [0.25, 0.5]), _short(0.9999999, [0.9999999, 1.0])
    ('0.25', '0.9999999')
    """
    texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in (value, *others)]
    return texts[0] if texts.count(texts[0]) == 2 else repr(value)
