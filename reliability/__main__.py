"""Runs the tests of reliability, prints one table, and keeps each row in results/reliability.json and its page.

    python -m reliability                  everything, in less than 40 minutes on two cores
    python -m reliability --quick          a few trials of every row, in some minutes
    python -m reliability --only R1 R4     some rows

The exit code is 1 if anything failed.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from reliability.rows import Check, Row
from reliability.runs import ROOT, use_cache
from reliability.table import PAGE, RESULTS, with_table, write

MODULES = ("kills", "signals", "saves", "disks", "determinism", "suites", "long_runs", "learning", "supply_chain")
WORKERS = 2
MEASURE_SPEED = {"R16"}
"""Rows that run alone, since they measure speed."""


def checks() -> dict[str, Check]:
    """The check of every row, in the order of the rows."""
    found: dict[str, Check] = {}
    for name in (*MODULES, "others"):
        found |= import_module(f"reliability.{name}").CHECKS
    return dict(sorted(found.items(), key=lambda item: int(item[0][1:])))


def run_here(name: str, full: bool) -> Row:
    """Run the check of one row in this process."""
    began = time.monotonic()
    try:
        row = checks()[name](full)
    except Exception as error:
        row = Row(name, f"{name} could not run")
        row.count(f"{type(error).__name__}: {error}")
    row.seconds = round(time.monotonic() - began, 1)
    return row


def run_in_process(name: str, full: bool) -> Row:
    """Run the check of one row in a process of its own, so that rows share no state."""
    command = [sys.executable, "-m", "reliability", "--row", name, *([] if full else ["--quick"])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    try:
        return Row(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        row = Row(name, f"{name} ended with exit code {done.returncode}")
        row.count(done.stderr[-300:] or "it printed nothing")
        return row


def run_all(names: list[str], full: bool, console: Console, keep: Callable[[Row], None]) -> list[Row]:
    """Run rows two at a time, and those that measure speed alone at the end; keep each as soon as it has ended."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    rows: list[Row] = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("rows", total=len(names))

        def finished(row: Row) -> None:
            rows.append(row)
            keep(row)
            mark = "[red]✗" if row.failed else "[green]✓"
            progress.console.print(f"{mark}[/] {row.name}: {row.passed:,} of {row.tried:,}, {row.seconds:.0f} s")
            progress.advance(task)

        with ThreadPoolExecutor(WORKERS) as pool:
            together = [pool.submit(run_in_process, name, full) for name in names if name not in MEASURE_SPEED]
            for future in as_completed(together):
                finished(future.result())
        for name in names:
            if name in MEASURE_SPEED:
                finished(run_in_process(name, full))
    return sorted(rows, key=lambda row: int(row.name[1:]))


def show(rows: list[Row], console: Console) -> None:
    table = Table("row", "test", "tried", "passed", "seconds")
    for row in rows:
        test = row.test + (f" [yellow](not run: {row.not_run})[/]" if row.not_run else "")
        style = "red" if row.failed else None
        table.add_row(row.name, test, f"{row.tried:,}", f"{row.passed:,}", f"{row.seconds:.0f}", style=style)
    console.print(table)
    for row in rows:
        for failure in row.failures:
            console.print(f"{row.name}: {failure}", style="red", markup=False)


def _ignore(row: Row) -> None:
    """A quick run keeps nothing."""


def keep_row(row: Row) -> None:
    """Put a row of a full run into the results and into the page."""
    versions = {name: import_module(name).__version__ for name in ("trustax", "jax", "numpy")}
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []
    others = [other for other in known if other["name"] != row.name]
    results = {
        "versions": versions | {"python": platform.python_version()},
        "rows": sorted([*others, row.to_json()], key=lambda one: int(one["name"][1:])),
    }
    write(results, RESULTS)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ROW", help="run some rows, for example R1 R4")
    parser.add_argument("--quick", action="store_true", help="run a few trials of every row, and write nothing")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(run_here(options.row, not options.quick).to_json()))
        return
    known = list(checks())
    unknown = set(options.only or ()) - set(known)
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="trustax-reliability-") as cache:
        use_cache(Path(cache), options.quick)
        rows = run_all(options.only or known, not options.quick, console, _ignore if options.quick else keep_row)
    show(rows, console)
    sys.exit(1 if any(row.failed for row in rows) else 0)


if __name__ == "__main__":
    main()
