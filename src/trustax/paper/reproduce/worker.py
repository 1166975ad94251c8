"""The worker process of `trustax reproduce`: trains one run of an experiment and writes its outcome."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from trustax.ops.metrics import Record
from trustax.paper.results import outcome_of, write
from trustax.sweeps.worker import Job, finished_records, training_seconds, work


def write_outcome(job: Job, records: Sequence[Record]) -> None:
    """Write the outcome of a finished run.

    A timed run has several rounds. Its outcome is written after the last round, with the median speed of all rounds.
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
