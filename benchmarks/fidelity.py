"""Tables of docs/fidelity.md, docs/learning.md and docs/readings-tables.md, from the files under results/.

usage: python benchmarks/fidelity.py                        print the tables
       python benchmarks/fidelity.py --write                put them into the pages
       python benchmarks/fidelity.py --add FILE --round 3   add a file of readings.py to results/readings.json

Mean ranks follow the rule in benchmarks/readings.py: in each cell, readings are ranked by their mean final return.
Readings with the same mean share the average of their ranks. Only readings that ran in every cell of a round are
ranked, so that all ranks are among the same readings.
"""

import argparse
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rounds import READINGS, Reading, scaled

from trustax.cli.formatting import short_count
from trustax.paper.results import Outcome, read
from trustax.paper.tables.cells import Entry, Sample, entry
from trustax.paper.tables.layout import Column, PaperTable, interval, markdown_lines, number, ours, seeds, theirs
from trustax.paper.tables.tables import table
from trustax.paper.tasks import task_of

ROOT = Path(__file__).parent.parent
READINGS_FILE = ROOT / "results" / "readings.json"
PAGES = {name: ROOT / "docs" / f"{name}.md" for name in ("fidelity", "learning", "readings-tables")}
ROUNDS = tuple(range(1, 20))
CONTROLS = ("minibatch 10", "PPO", "PPO, small means")
"""Readings that are not ranked: the literal one, and PPO."""
CHOSEN = "cap to 0.01 from 10"
"""The reading that the second round picked; later rounds vary it."""
PROTOCOLS = {"paper": "terminate", "bootstrapped": "bootstrapped"}
KEPT = ("task", "protocol", "round", "reading", "steps", "total_timesteps", "returns", "beta", "cap", "kl_old_new")
COLUMNS = {
    "table-1-full": ("MCPO N=10", "MCPO N=10 default", "MCPO N=10 literal", "PPO ε=0.2"),
    "minigrid": ("MCPO N=10", "MCPO N=10 default", "MCPO N=10 literal", "PPO ε=0.2"),
    "table-2": ("MCPO", "MCPO N=40 default", "MCPO N=40 literal", "PPO"),
}
"""The rows of the paper's tables that become columns here; Table 2 shows the best setting of MCPO and PPO."""
BASELINES = {
    **{f"VMPO α₀={cost}": f"VMPO α₀={cost} sum" for cost in ("0.1", "1", "5")},
    **{f"KL Fixed β={cost}": f"KL Fixed β={cost} k2" for cost in ("0.01", "1")},
    "KL Adaptive d=0.01": "KL Adaptive d=0.01 k2",
    "MDPO β₀=0.5": "MDPO β₀=0.5 k2",
}
"""Baselines in two forms: the preset of the paper's tables, and the other form."""

SHORT = {"CartPole-v1": 500_000, "Hopper-v5": 1_000_000, "HalfCheetah-v5": 1_000_000}
"""Tasks outside the paper's tables, with their steps."""
SHORT_COLUMNS = ("MCPO N=10 default", "PPO ε=0.2 default", "MCPO N=10 one target", "PPO ε=0.2", "MCPO N=10 literal")

Cell = tuple[str, str]
"""A task under a protocol."""


@cache
def readings(round_number: int) -> dict[Cell, dict[str, dict[str, Any]]]:
    """The results of a round, by cell and reading."""
    cells: dict[Cell, dict[str, dict[str, Any]]] = {}
    for row in json.loads(READINGS_FILE.read_text(encoding="utf-8")):
        if row["round"] == round_number:
            cells.setdefault((row["task"], row["protocol"]), {})[row["reading"]] = row
    return cells


def names(round_number: int) -> list[str]:
    """All readings of a round, in the order of the file."""
    return list(dict.fromkeys(name for cell in readings(round_number).values() for name in cell))


def mean_ranks(round_number: int) -> dict[str, float]:
    """The mean rank of each reading that ran in every cell of a round, best first; none if there is only one."""
    cells = readings(round_number).values()
    ranked = [name for name in names(round_number) if name not in CONTROLS and all(name in cell for cell in cells)]
    if len(ranked) < 2:
        return {}
    means = np.array([[np.mean(cell[name]["returns"]) for name in ranked] for cell in cells])
    better = (means[:, None, :] > means[:, :, None]).sum(axis=2)
    same = (means[:, None, :] == means[:, :, None]).sum(axis=2)
    average = (better + (same + 1) / 2).mean(axis=0)
    return {ranked[place]: float(average[place]) for place in np.argsort(average, kind="stable")}


def readings_table(round_number: int) -> str:
    """Mean final returns of a round, the best mean rank first; then readings without a rank, and the controls."""
    cells, ranks = readings(round_number), mean_ranks(round_number)
    rest = [name for name in names(round_number) if name not in ranks and name not in CONTROLS]
    order = [*ranks, *rest, *(name for name in CONTROLS if name in names(round_number))]
    rows = [
        [
            f"**{name}**" if name == CHOSEN else name,
            number(ranks[name], 2) if name in ranks else "",
            *(_mean_return(cell.get(name)) for cell in cells.values()),
        ]
        for name in order
    ]
    if CHOSEN in ranks:
        adapted = [number(cell[CHOSEN]["cap"], 1) for cell in cells.values()]
        rows.append([f"*mean β_max of {CHOSEN}*", "", *adapted])
    rows.insert(0, ["reading", "mean rank", *(_heading(key, cell) for key, cell in cells.items())])
    return _markdown(rows if ranks else [[row[0], *row[2:]] for row in rows])  # no reading ran in every cell


CHOICES = {
    "**MCPO()**": "auto, unrewarded 0.97, sharp α, σ = 1/√d, target ∝ √d, each minibatch with box actions",
    "… β decided once an epoch in small minibatches": "auto, unrewarded 0.97, sharp α, σ = 1/√d, target ∝ √d",
    "… one KL target for any number of action dimensions": "auto, unrewarded 0.97, sharp α, σ = 1/√d",
    "… σ starts at 1": "auto, unrewarded 0.97, sharp α",
    "… the paper's α": "auto, unrewarded 0.97",
    "… all advantages standardized": "adaptive, ∝batch, auto",
    "… β decided once an epoch in large minibatches too": "adaptive, ∝batch",
    "… one KL target for any batch": "adaptive",
    "… constant β_max = 10 (the preset)": "epoch 10",
    "… β decided at every minibatch (literal)": "minibatch 10",
    "PPO": "PPO",
}
"""From `MCPO()` to the literal reading: a row has all changes of the rows above it, and the one that it names."""
BOX_ACTIONS = {"Pendulum-v1": 1, "BipedalWalker-v3": 4, "Hopper-v5": 3, "HalfCheetah-v5": 6}
"""The number of box actions; with more than one, the initial σ is not 1 by default."""
CHOICE_CELLS = (
    ("Pendulum-v1", "paper"),
    ("Pendulum-v1", "bootstrapped"),
    ("LunarLander-v3", "paper"),
    ("LunarLander-v3", "bootstrapped"),
    ("BipedalWalker-v3", "paper"),
    ("BipedalWalker-v3", "bootstrapped"),
    ("MiniGrid-Unlock-v0", "paper"),
    ("MiniGrid-UnlockPickup-v0", "paper"),
    ("MiniGrid-UnlockPickup-v0", "bootstrapped"),
    ("Hopper-v5", "bootstrapped"),
    ("HalfCheetah-v5", "bootstrapped"),
)


def choice_table() -> str:
    """Mean return ± standard error over all complete runs of a reading in all rounds (how many runs).

    "=": on this task, the reading is the same as one in a row above.
    """
    results = json.loads(READINGS_FILE.read_text(encoding="utf-8"))
    known = [row for row in results if row["reading"] in READINGS]  # the others changed the library itself
    complete = [row for row in known if row["steps"] >= 0.95 * row["total_timesteps"]]
    headings = [f"{_task_name(task)}<br>{PROTOCOLS[protocol]}" for task, protocol in CHOICE_CELLS]
    rows = [["reading", *headings]]
    shown: set[tuple[Cell, Reading]] = set()
    for label, name in CHOICES.items():
        meanings = [(cell, _meaning(name, cell[0])) for cell in CHOICE_CELLS]
        rows.append([label, *("=" if meaning in shown else _pooled(complete, *meaning) for meaning in meanings)])
        shown.update(meanings)
    return _markdown(rows)


def _pooled(rows: list[dict[str, Any]], cell: Cell, meaning: Reading) -> str:
    """All runs of a cell with a reading, under any name that means the same there."""
    runs = _distinct(
        row["returns"]
        for row in rows
        if (row["task"], row["protocol"]) == cell and _meaning(row["reading"], cell[0]) == meaning
    )
    if not runs:
        return ""
    mean, error = np.mean(runs), np.std(runs, ddof=1) / np.sqrt(len(runs))
    digits = 2 if abs(mean) < 1 else 0
    return f"{number(float(mean), digits)} ± {number(float(error), digits)} ({len(runs)})"


def _distinct(rounds: Iterable[list[float]]) -> list[float]:
    """The returns of all rounds. A round that begins with all returns of an earlier one has run its seeds again.

    >>> _distinct([[1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 4.0]])
    [1.0, 2.0, 3.0, 1.0, 4.0]
    """
    earlier = list[list[float]]()
    for returns in rounds:
        repeated = max((len(one) for one in earlier if returns[: len(one)] == one), default=0)
        earlier.append(returns[repeated:] if repeated else returns)
    return [value for returns in earlier for value in returns]


def _meaning(name: str, env_id: str) -> Reading:
    """A reading with the KL target that it has on a task; how the target grows makes no difference then."""
    task = task_of(env_id)
    assert task is not None, f"{env_id} is not a task of the paper"
    num_actions = BOX_ACTIONS.get(env_id, 0)
    reading = scaled(READINGS[name], task.num_envs * task.horizon, task.num_minibatches, num_actions)
    reading = reading._replace(by_batch=0.0, by_actions=0.0)
    if not env_id.startswith("MiniGrid"):
        reading = reading._replace(unrewarded=0.0)  # there is always a reward
    return reading if num_actions > 1 else reading._replace(shared_std=0.0)


def _heading(key: Cell, cell: dict[str, dict[str, Any]]) -> str:
    task, protocol = key
    row = next(iter(cell.values()))
    whole = row["total_timesteps"]
    stopped = f" of {short_count(whole)}" if row["steps"] < 0.95 * whole else ""
    steps = short_count(row["steps"] if stopped else whole)
    counts = sorted({len(row["returns"]) for row in cell.values()})
    seeds = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    return f"{_task_name(task)}<br>{PROTOCOLS[protocol]}<br>{steps}{stopped}, {seeds} seeds"


def _task_name(env_id: str) -> str:
    return re.sub(r"^MiniGrid-|-v\d+$", "", env_id)


def _mean_return(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    mean = float(np.mean(row["returns"]))
    return number(mean, 2 if abs(mean) < 1 else 1)


def outcomes_table() -> str:
    """MCPO in three forms, PPO and the paper, on every task that has outcomes."""
    rows = [
        _outcomes_row(name, column, methods)
        for name, methods in COLUMNS.items()
        for column in _tasks(_paper_table(name, "paper"))
        if any(_entry(name, protocol, method, column.key).ours for protocol in PROTOCOLS for method in methods[:-1])
    ]
    return _markdown([["task", "MCPO, β_max = 10", "**MCPO()**", "literal", "PPO", "paper's MCPO"], *rows])


def _outcomes_row(name: str, column: Column, methods: tuple[str, ...]) -> list[str]:
    """One task: a line in each cell for each protocol."""
    cells = [[_entry(name, protocol, method, column.key) for protocol in PROTOCOLS] for method in methods]
    target = cells[0][0].target
    shown = ("<br>".join(_shown(cell, column) or "–" for cell in both) for both in cells)
    return [column.heading, *shown, theirs(target, column) if target else ""]


def short_table() -> str:
    """MCPO and PPO where a user would train for a million steps or less, with bootstrapped time limits."""
    outcomes = read(ROOT / "results" / "bootstrapped")
    rows = [
        [f"{task}, {short_count(steps)}", *(_short_cell(outcomes, task, steps, name) for name in SHORT_COLUMNS)]
        for task, steps in SHORT.items()
    ]
    return _markdown([["task", "**MCPO()**", "PPO()", "MCPO, one KL target", "PPO, σ = 1", "literal"], *rows])


def _short_cell(outcomes: list[Outcome], env_id: str, steps: int, method: str) -> str:
    for outcome in outcomes:
        if (outcome.run.env_id, outcome.method, outcome.run.total_timesteps) == (env_id, method, steps):
            column = Column(env_id, env_id)
            cell = entry(Sample(outcome.final, outcome.steps[-1], not outcome.is_complete), None)
            return f"{_shown(cell, column)} {interval(cell, column)}"
    return "–"


def baselines_table() -> str:
    """Both forms of the baselines on the tasks of Table 1, under the paper's protocol, where both have outcomes."""
    rows = []
    for preset, other in BASELINES.items():
        for column in _tasks(_paper_table("table-1-full", "paper")):
            cells = [_entry("table-1-full", "paper", method, column.key) for method in (preset, other)]
            if all(cell.ours for cell in cells) and cells[0].target:
                shown = [f"{_shown(cell, column)} {interval(cell, column)}" for cell in cells]
                rows.append([preset, column.heading, *shown, theirs(cells[0].target, column)])
    return _markdown([["baseline", "task", "preset: mean, exact", "other form: sum, k2", "paper"], *rows])


@cache
def _paper_table(name: str, protocol: str) -> PaperTable:
    return table(name, ROOT / "results", protocol)


def _tasks(shown: PaperTable) -> list[Column]:
    """The columns of final returns."""
    return [column for column in shown.columns if not re.search("best|success", column.key)]


def _entry(name: str, protocol: str, method: str, key: str) -> Entry:
    shown = _paper_table(name, protocol)
    (row,) = (row for row in shown.rows if row.name == method)
    return row.entries[[column.key for column in shown.columns].index(key)]


def _shown(cell: Entry, column: Column) -> str:
    if cell.ours is None:
        return ""
    return f"{ours(cell, column)}{seeds(cell, column)}" + (f", {cell.says()}" if cell.verdict == "short" else "")


def _markdown(rows: list[list[str]]) -> str:
    return "\n".join(markdown_lines(rows[0], rows[1:]))


def tables(page: str) -> dict[str, str]:
    """Every table of a page by the name in its markers."""
    match page:
        case "fidelity":
            return {"choice": choice_table(), "outcomes": outcomes_table()}
        case "learning":
            return {"short": short_table()}
        case _:
            rounds = {f"round {number}": readings_table(number) for number in ROUNDS}
            return rounds | {"baselines": baselines_table()}


def written(name: str) -> str:
    """The text of a page with its tables made from the files."""
    page = PAGES[name].read_text(encoding="utf-8")
    for marked, text in tables(name).items():
        before, marker, after = page.partition(f"<!-- {marked} -->\n")
        if not marker:
            raise SystemExit(f"docs/{name}.md should have a line <!-- {marked} --> above the table")
        rest = re.sub(r"\A(\|.*\n)*", "", after)  # without the old table
        page = f"{before}{marker}{text}\n{rest}"
    return page


def add(file: Path, round_number: int) -> None:
    """Add the lines that benchmarks/readings.py wrote, without what no table needs."""
    rows = json.loads(READINGS_FILE.read_text(encoding="utf-8")) if READINGS_FILE.exists() else []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line) | {"round": round_number}
        if row["reading"] == "PPO":
            row |= {"beta": None, "cap": None}  # PPO has neither
        rows.append({name: row[name] for name in KEPT})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    READINGS_FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    parser.add_argument("--add", type=Path, help="a file that benchmarks/readings.py wrote")
    parser.add_argument("--round", type=int, help="the round of the experiment that the file belongs to")
    options = parser.parse_args()
    if options.add:
        if options.round is None:
            parser.error("--add needs --round")
        add(options.add, options.round)
    elif options.write:
        for name, page in PAGES.items():
            page.write_text(written(name), encoding="utf-8")
    else:
        print("\n\n".join(text for name in PAGES for text in tables(name).values()))


if __name__ == "__main__":
    main()
