"""The learners of a run that have the same settings, as runs of their own: each is a curve in a plot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trustax.ops.metrics import Record
from trustax.plotting.labels import run_labels
from trustax.run import Run
from trustax.settings import per_learner_values
from trustax.storage.records import FileRecords


@dataclass(frozen=True)
class LearnerRecords(Sequence[Record]):
    """The records of a run with the values of some learners only."""

    records: Sequence[Record]
    learners: Sequence[int]

    @property
    def evaluations(self) -> list[Record]:
        """The evaluations of these learners; empty if there are none."""
        return [self._own(record) for record in evaluations_of(self.records)]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        return self._own(self.records[index])

    def __iter__(self) -> Iterator[Record]:
        return map(self._own, self.records)

    def _own(self, record: Record) -> Record:
        return {
            name: [value[learner] for learner in self.learners] if isinstance(value, list) else value
            for name, value in record.items()
        }


def evaluations_of(records: Sequence[Any]) -> Sequence[Any]:
    """The evaluations of a run, if its records are those of a folder."""
    return records.evaluations if isinstance(records, FileRecords | LearnerRecords) else []


def groups_of(run: Run) -> list[tuple[Run, list[int]]]:
    """The learners of a run that have the same settings: each group as a run of its own, with its learners there.

    >>> from trustax.algorithms import PPO
    >>> run = Run(algorithm=PPO(learning_rate=(1e-4, 1e-3, 1e-4)), env_id="A", num_seeds=3)
    >>> [(one.algorithm.learning_rate, learners) for one, learners in groups_of(run)]
    [(0.0001, [0, 2]), (0.001, [1])]
    """
    values = per_learner_values(run.algorithm)
    groups: dict[tuple[float, ...], list[int]] = {}
    for learner in range(run.num_seeds):
        groups.setdefault(tuple(each[learner] for each in values.values()), []).append(learner)
    algorithm: Any = run.algorithm
    return [
        (
            replace(
                run,
                algorithm=replace(algorithm, **dict(zip(values, own, strict=True))),
                num_seeds=len(learners),
                repeat_seeds=1,
            ),
            learners,
        )
        for own, learners in groups.items()
    ]


def by_setting(run: Run, records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The records of a run by the labels of its curves: one for each setting that its learners have."""
    groups = groups_of(run)
    labels = run_labels({str(number): one for number, (one, _) in enumerate(groups)})
    return {label: LearnerRecords(records, learners) for label, (_, learners) in zip(labels, groups, strict=True)}
