"""The paper's tables from our outcomes, beside the paper's own numbers.

>>> nothing_yet = table("table-1", Path("nowhere"), "paper")
>>> nothing_yet.rows[0].name, nothing_yet.rows[0].entries[0].verdict
('KL Adaptive d=0.01', 'not run')
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trustax.errors import TrustaxError, similar_or_all
from trustax.paper.experiments import EXPERIMENTS, PROTOCOLS
from trustax.paper.results import Outcome, read
from trustax.paper.tables.cells import Entry, entry, marked
from trustax.paper.tables.layout import Aggregate, Column, Estimate, PaperTable, Row, number
from trustax.paper.tables.scores import BEST, Samples, samples_of
from trustax.paper.tables.targets import BEST_OF, CLASSIC_CONTROL, MUJOCO_CONTROL, SOLVED, TARGETS, Target
from trustax.paper.tasks import TASKS
from trustax.sweeps.statistics import (
    Runs,
    Scores,
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
    rescaled,
)

NUMBERS = {"table-1": "Table 1. ", "table-1-full": "Table 1 in full. ", "table-2": "Table 2. ", "table-3": "Table 3. "}
TABLES = [*NUMBERS, "minigrid", "ablation", "ablation-full", "ablation-default", "cost"]
CONTAINED = "table-1"
"""This table is a part of the full one."""
REFERENCES = {
    "table-1": "MCPO N=10 default",
    "table-1-full": "MCPO N=10 default",
    "table-2": "MCPO N=40 default",
    "table-3": "MCPO N=10 default",
    "minigrid": "MCPO N=10 default",
    "ablation-default": "MCPO N=10 default",
}
"""`MCPO()` with the memory size of the table. The other methods are compared with it over all tasks."""
RANGES = {
    task: (min(row[task].mean for row in rows), max(row[task].mean for row in rows))
    for rows in (list(CLASSIC_CONTROL.values()), list(MUJOCO_CONTROL.values()))
    for task in rows[0]
}
"""The paper's worst and best mean on a task. They become 0 and 1 where scores of several tasks are averaged; on the
tasks that are not listed, scores already have that size."""
TIME_LIMITS = {False: "a time limit counts as a termination", True: "the value after a time limit counts"}


def table(name: str, results: Path, protocol: str) -> PaperTable:
    """Make a table from the outcomes under `results`; cells without outcomes say "not run"."""
    if name not in TABLES:
        raise TrustaxError(f"the paper has no table {name!r}; {similar_or_all(name, TABLES)}")
    if protocol not in PROTOCOLS:
        raise TrustaxError(f"there is no protocol {protocol!r}; {similar_or_all(protocol, PROTOCOLS)}")
    outcomes = read(results / ("cost" if name == "cost" else protocol))
    columns, samples = samples_of(name, protocol, outcomes)
    rows = _rows(name, columns, samples)
    aggregates = _aggregates(name, samples) if name in REFERENCES else []
    return PaperTable(
        title=NUMBERS.get(name, "") + EXPERIMENTS[name].title,
        setting=_setting(name, protocol, outcomes),
        extent=_extent(name, columns, rows),
        columns=columns,
        rows=rows,
        notes=_notes(name, bool(aggregates)),
        aggregates=aggregates,
        aggregate_headings=["method", "IQM [95%]", f"P({REFERENCES.get(name)} better) [95%]"],
    )


def part_of(shown: PaperTable, methods: Sequence[str] | None, tasks: Sequence[str] | None) -> PaperTable:
    """Only the rows and columns of some methods and tasks, without the numbers over all tasks."""
    if not methods and not tasks:
        return shown
    places = [place for place, column in enumerate(shown.columns) if not tasks or _is_about(column, tasks)]
    rows = [row for row in shown.rows if not methods or {row.name, *BEST_OF.get(row.name, ())} & set(methods)]
    return replace(
        shown,
        columns=[shown.columns[place] for place in places],
        rows=[row._replace(entries=[row.entries[place] for place in places]) for row in rows],
        extent=f"Of all: {shown.extent}",
        aggregates=(),
    )


def _is_about(column: Column, tasks: Sequence[str]) -> bool:
    """Whether a column shows runs of one of these tasks."""
    return any(column.key == task or column.key.startswith((f"{task},", f"{task} ")) for task in tasks)


def _rows(name: str, columns: Sequence[Column], samples: Samples) -> list[Row]:
    variants = EXPERIMENTS[name].variants
    paper = [row for row in samples if row not in variants]
    entries: dict[str, list[Entry]] = {row: [] for row in samples}
    for column in columns:
        solved_at = SOLVED.get(column.key) if name != "cost" else None
        cells = {row: entry(samples[row][column.key], _target(name, row, column.key), solved_at) for row in samples}
        if name != "cost" and column.key != "margin":
            cells |= zip(paper, marked([cells[row] for row in paper]), strict=True)
        for row, cell in cells.items():
            entries[row].append(cell)
    return [Row(row, entries[row], row in variants) for row in samples]


def _target(name: str, row: str, key: str) -> Target | None:
    targets = TARGETS.get(name, {})
    if key == "ratio":
        return Target(targets[row]["pendulum"].mean / targets["PPO ε=0.2"]["pendulum"].mean)
    return targets.get(row, {}).get(key.removesuffix(BEST))


def _aggregates(name: str, samples: Samples) -> list[Aggregate]:
    """Numbers over all tasks, for methods that ran in full on each of them."""
    complete = complete_scores(name, samples)
    reference = complete.get(REFERENCES[name])
    return [
        Aggregate(
            row,
            Estimate(float(interquartile_mean(scores)), *bootstrap_interval(interquartile_mean, scores)),
            None if reference is None or scores is reference else _improvement(reference, scores),
        )
        for row, scores in complete.items()
    ]


def complete_scores(name: str, samples: Samples) -> dict[str, Scores]:
    """The scores of the rows that ran in full on every task, on one scale."""
    complete: dict[str, Scores] = {}
    tasks = EXPERIMENTS[name].tasks
    for row, cells in samples.items():
        ran = {task: cell for task in tasks if (cell := cells[task]) is not None and not cell.is_short}
        if len(ran) == len(tasks):
            complete[row] = [_comparable(task, cell.scores) for task, cell in ran.items()]
    return complete


def _comparable(task: str, scores: Runs) -> Runs:
    return rescaled(scores, *RANGES[task]) if task in RANGES else scores


def is_rescaled(name: str) -> bool:
    """Whether a table rescales the scores of some of its tasks to average them."""
    return any(task in RANGES for task in EXPERIMENTS[name].tasks)


def _improvement(reference: Scores, scores: Scores) -> Estimate:
    interval = bootstrap_interval(probability_of_improvement, reference, scores)
    return Estimate(float(probability_of_improvement(reference, scores)), *interval)


def _setting(name: str, protocol: str, outcomes: Sequence[Outcome]) -> str:
    if name == "cost":
        hardware = sorted({outcome.hardware for outcome in outcomes})
        return f"Ours on {'; '.join(hardware) or 'nothing yet'}; the paper's on one V100."
    return f"Protocol {protocol}: {TIME_LIMITS[PROTOCOLS[protocol]]}."


def _extent(name: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """How many cells of the paper's methods were run."""
    shown = [index for index, column in enumerate(columns) if column.key in TASKS]
    cells = [row.entries[index] for row in rows if not row.is_variant for index in shown]
    count = Counter(cell.verdict for cell in cells)
    differ = count["differs, better"] + count["differs, worse"]
    judged = f" ({count['matches']} match, {differ} differ)" if count["matches"] + differ else ""
    full = len(cells) - count["short"] - count["not run"]
    seeds = EXPERIMENTS[name].num_seeds
    few = sum(cell.ours is not None and cell.ours.count < seeds for cell in cells)
    return f"{len(cells)} cells: {full} in full{judged}, {count['short']} short, {count['not run']} not run." + (
        f" {few} of them with fewer than {seeds} seeds." if few else ""
    )


def _notes(name: str, has_aggregates: bool) -> list[str]:
    """Explain the numbers and the words beside them."""
    if name == "cost":
        return ["Environment steps per second while training, median over the iterations; the ratio is to PPO's."]
    what = "the return of the last 100 training episodes"
    if name == "table-3":
        what = "the highest point of the learning curve, where 0 is random play and 100 a human's"
    notes = [f"Ours: mean ± standard deviation over seeds (how many) of {what}; [95% bootstrap interval of the mean]."]
    limits = [f"{number(SOLVED[task], 1)} ({task})" for task in EXPERIMENTS[name].tasks if task in SOLVED]
    if limits:
        notes.append(f"(4/5): four of five seeds solve the task: they end at {', '.join(limits)} or above.")
    if name == "table-2":
        notes.append("A row is the best of its settings on each task; (1 of 3) says how many of them were run.")
    if name == "table-3":
        notes.append("The paper's mean and median are over nine games, of which it names these six: no verdict.")
    if name == "minigrid":
        notes.append(
            "The paper gives MCPO's return only in its text, as 0.9: our interval matches if it meets 0.85 to 0.95."
        )
    elif name == "ablation":
        notes.append(
            "The paper gives margins only in its text, in steps of 50: our interval matches if it comes within 25."
        )
    elif name == "ablation-full":
        notes.append("The paper has no numbers for these tasks.")
    elif name == "ablation-default":
        notes.append("No ψ: α = 0, so that only β depends on the virtual policy. The paper has no such rows.")
    elif name != "table-3":
        notes.append("matches: our interval overlaps the paper's, its mean ± t·std/√5, which is 1.24 times its ±.")
    if name in ("table-1", "table-1-full", "table-2"):
        notes.append("Best window: the highest mean of 100 training episodes; the paper does not say which it reports.")
    if name in ("table-1", "table-1-full"):
        notes.append("Baselines have the exact KL, and V-MPO averages its policy loss; rows named k2 and sum do not.")
        notes.append("What the paper leaves open about MCPO, and what we chose: docs/fidelity.md.")
    notes.append("short: fewer steps than in the paper (see the heading).")
    rows = "rows" if name == "ablation-default" else "paper's methods"
    notes.append(f"Bold: the best mean of the {rows} trained longest; underlined: Cohen's d < 0.5 from it.")
    return [*notes, _aggregate_note(name)] if has_aggregates else notes


def _aggregate_note(name: str) -> str:
    scale = " with the paper's worst and best mean on a task as 0 and 1" if is_rescaled(name) else ""
    return (
        f"IQM: mean of the middle half of all seeds and tasks{scale}; P: probability that a run of {REFERENCES[name]} "
        "beats a run of the row on the same task. Both only for rows that ran in full on all tasks, with stratified "
        "bootstrap intervals."
    )
