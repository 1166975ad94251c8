"""R5, R9, R10, R11 and R21: checks that count by themselves, each in its module."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from reliability.rows import Check, Row


def _check(name: str, test: str, module: str, function: str, quick: dict[str, Any], full: dict[str, Any]) -> Check:
    def check(all_trials: bool) -> Row:
        row = Row(name, test)
        if find_spec(f"reliability.{module}") is None:
            row.not_run = f"reliability/{module}.py does not exist"
        else:
            arguments = full if all_trials else quick
            row.add(*getattr(import_module(f"reliability.{module}"), function)(**arguments))
        return row

    return check


CHECKS: dict[str, Check] = {
    "R5": _check("R5", "damaged and hostile checkpoints", "fuzz", "fuzz", {"number": 50}, {"number": 1000}),
    "R9": _check("R9", "environments that return wrong or non-finite values", "environments", "check", {}, {}),
    "R11": _check("R11", "workers that raise, exit, are killed or hang", "workers", "check", {}, {}),
    "R21": _check(
        "R21",
        "runs of a sweep on Ray, with workers, nodes and the driver killed",
        "sweeps",
        "check",
        {"num_runs": 2, "num_iterations": 60, "num_kills": 1},
        {},
    ),
}
