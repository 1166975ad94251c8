"""Puts trained agents into the zoo, and writes its table.

usage: python benchmarks/zoo.py add RUN ...     evaluate the agents of runs, and put the best of each into the zoo
       python benchmarks/zoo.py page            write the table of docs/zoo.md from the stored results

The best agent of a run is the one with the highest return of the last 100 training episodes; it is evaluated in other
episodes than those in which all agents of a run are compared. A run is
`trustax train METHOD --env-id TASK --settings zoo --num-seeds 5`.
"""

import sys
from pathlib import Path

import numpy as np
import pages

from trustax.cli.zoo import evaluation_of
from trustax.ops.metrics import RETURN
from trustax.run import Run, read_run, to_json
from trustax.storage.journal import read_records
from trustax.storage.loading import load
from trustax.storage.zoo import entries, run
from trustax.storage.zoo.stored import RESULT, folder_of, write_result
from trustax.storage.zoo.table import page

PAGE = pages.DOCS / "zoo.md"
MARKER = "<!-- python benchmarks/zoo.py page -->\n"
NUM_EPISODES = 100


def method_of(found: Run) -> str:
    """The name of a run's method on the command line."""
    is_mean = getattr(found.algorithm, "virtual_policy", None) == "mean"
    return "mean-psi" if is_mean else found.algorithm_name


def add(run_dir: Path) -> None:
    """Put the best agent of a run into the zoo."""
    found = read_run(run_dir)
    method = method_of(found)
    if found != run(method, found.env_id, num_seeds=found.num_seeds, seed=found.seed):
        sys.exit(f"{run_dir} has other settings than the zoo")
    final = [round(float(value), 3) for value in read_records(run_dir)[-1][RETURN]]
    evaluations = [
        evaluation_of(load(run_dir, learner), found.env_id, NUM_EPISODES, seed=0) for learner in range(found.num_seeds)
    ]
    best = int(np.argmax(final))
    folder = folder_of(method, found.env_id)
    (folder / RESULT).unlink(missing_ok=True)
    load(run_dir, best).save(folder, with_critic=False)
    result = {
        "command": f"trustax train {method} --env-id {found.env_id} --settings zoo --num-seeds {found.num_seeds}",
        "learner": best,
        "training_returns": final,
        "seed_returns": [evaluation["mean"] for evaluation in evaluations],
        "evaluation": evaluation_of(load(run_dir, best), found.env_id, NUM_EPISODES),
        "run": to_json(found),
    }
    write_result(folder, result)
    print(f"{method}/{found.env_id}  {result['evaluation']}  of {result['seed_returns']}", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", *folders] if folders:
            for folder in folders:
                add(Path(folder))
        case ["page"]:
            pages.write(PAGE, MARKER, page(entries()))
        case _:
            sys.exit(__doc__)
