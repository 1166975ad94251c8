"""The table in `docs/reliability.md`, made from `results/reliability.json`."""

import json
from pathlib import Path
from typing import Any

from reliability.runs import ROOT

RESULTS = ROOT / "results" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- table: make reliability -->", "<!-- end of the table -->"


def read() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def write(results: dict[str, Any], path: Path = RESULTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def markdown(results: dict[str, Any]) -> str:
    """The table as Markdown: one line for each row."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [
        f"The newest full run of each row: {versions}.",
        "",
        "| row | test | tried | passed |",
        "|---|---|---|---|",
    ]
    for row in results["rows"]:
        test = row["test"] + (f" (not run: {row['not_run']})" if row["not_run"] else "")
        lines.append(f"| {row['name']} | {test} | {row['tried']:,} | {row['passed']:,} |")
    return "\n".join(lines)


def with_table(page: str, results: dict[str, Any]) -> str:
    """The page with the table between its two comments replaced."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}"
