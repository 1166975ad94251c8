"""The report's data for the paper's tables, as JSON values for every protocol."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trustax.paper.experiments import PROTOCOLS
from trustax.paper.report.curves import differences, rounded, task_name
from trustax.paper.results import Outcome
from trustax.paper.tables.cells import Entry
from trustax.paper.tables.layout import Column, Estimate, PaperTable, ours, seeds, theirs
from trustax.paper.tables.tables import CONTAINED, TABLES, table
from trustax.paper.tables.targets import BEST_OF, TARGETS, Target
from trustax.paper.tasks import TASKS

RAN = "ran"
"""The verdict of a cell that ran in full but has no number in the paper."""
WITH_CURVES = ("table-1-full", "table-2", "minigrid")
"""Experiments whose numbers are final values of learning curves."""


def table_data(results: Path, names: Iterable[str] = TABLES) -> list[dict[str, Any]]:
    """Every table with its content for each protocol."""
    return [_table(name, {protocol: table(name, results, protocol) for protocol in PROTOCOLS}) for name in names]


def target_of(outcome: Outcome) -> Target | None:
    """The paper's final value for an outcome; tuned methods share the value of their best setting."""
    if differences(outcome):
        return None
    for experiment in WITH_CURVES:
        for row, columns in TARGETS[experiment].items():
            if outcome.method in (row, *BEST_OF.get(row, ())) and task_name(outcome) in columns:
                return columns[task_name(outcome)]
    return None


def _table(name: str, found: dict[str, PaperTable]) -> dict[str, Any]:
    first = next(iter(found.values()))
    contents = {protocol: _content(shown) for protocol, shown in found.items()}
    return {
        "name": name,
        "title": first.title,
        "tasks": [column.key for column in first.columns],
        "counted": [column.key in TASKS for column in first.columns],
        "contained": name == CONTAINED,
        "protocols": contents,
        "alike": all(content == contents[next(iter(found))] for content in contents.values()),
    }


def _content(shown: PaperTable) -> dict[str, Any]:
    return {
        "state": shown.state,
        "headings": [column.heading for column in shown.columns],
        "notes": list(shown.notes),
        "rows": [
            {
                "name": row.name,
                "ours": row.is_variant,
                "cells": [_cell(cell, column) for cell, column in zip(row.entries, shown.columns, strict=True)],
            }
            for row in shown.rows
        ],
        "aggregates": [
            [(row.name, row.name), _estimate(row.interquartile_mean), _estimate(row.improvement)]
            for row in shown.aggregates
        ],
        "aggregate_headings": list(shown.aggregate_headings),
    }


def _cell(cell: Entry, column: Column) -> dict[str, Any]:
    """The content of a cell without its empty parts, of which a page would have thousands."""
    content = {
        "verdict": cell.verdict or RAN,
        "says": cell.says() if cell.verdict == "short" else "",
        "mark": cell.mark,
        "ours": ours(cell, column),
        "seeds": seeds(cell, column),
        "choice": cell.choice,
        "paper": theirs(cell.target, column) if cell.target else "",
        "order": rounded([cell.ours.mean])[0] if cell.ours else None,
    }
    return {name: value for name, value in content.items() if value not in ("", None)}


def _estimate(estimate: Estimate | None) -> tuple[str, float | None]:
    """The text of an estimate and its sort key."""
    return ("", None) if estimate is None else (str(estimate), estimate.value)
