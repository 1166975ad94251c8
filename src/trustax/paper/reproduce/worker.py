"""The worker of `trustax reproduce`: trains a run of an experiment and leaves its outcome among the results."""

from dataclasses import replace
from pathlib import Path
from statistics import median

from trustax.ops.metrics import Record
from trustax.paper.results import outcome_of, write
from trustax.sweep.worker import Job, finished_records, training_seconds, work


def write_outcome(job: Job, records: list[Record]) -> None:
    """Write what a finished run amounts to.

    A run that is timed is run several times: only when the last of its rounds has finished is there an outcome, and its
    speed is the median over the rounds.
    """
    rounds = [finished_records(job.run, Path(folder)) for folder in job.notes["rounds"]]
    outcomes = [
        outcome_of(job.run, job.notes["method"], records, training_seconds(job.run, records))
        for records in rounds
        if records
    ]
    if len(outcomes) == len(rounds):
        speed = median(outcome.steps_per_second for outcome in outcomes)
        write(replace(outcomes[-1], steps_per_second=speed), Path(job.notes["results"]))


if __name__ == "__main__":
    work(write_outcome)
