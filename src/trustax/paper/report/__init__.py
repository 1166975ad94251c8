"""The whole reproduction as one offline HTML page: tables, curves, and the internals of MCPO.

The file contains everything: style sheet, script, and the data as JSON. A content security policy lists the script by
its hash and forbids every request, so no text from a results file can run code or send data.
"""

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from trustax.paper.experiments import EXPERIMENTS, PROTOCOLS
from trustax.paper.report.curves import curve_data, outcome_labels, outcomes_in, provenance_data
from trustax.paper.report.figures import figure_data
from trustax.paper.report.internals import outcome_internals, trace_internals
from trustax.paper.report.tables import table_data, target_of
from trustax.paper.reproduce.plan import TIMED
from trustax.paper.reproduce.reproduce import TRACED
from trustax.paper.results import read
from trustax.paper.trace.trace import read_traces
from trustax.plotting.curves import COLORS
from trustax.storage.atomic import write_atomic

PAGE_FILES = files("trustax.paper.report") / "page"
SCRIPTS = ("elements.js", "charts.js", "pointer.js", "plot.js", "overview.js", "curves.js", "internals.js", "page.js")
PROTOCOL_DESCRIPTIONS = {
    "paper": "treats a time limit as a termination, as the paper’s code does.",
    "bootstrapped": "adds the value of the last observation at a time limit, the standard treatment.",
}
REPORT_COMMAND = "trustax report results"
FIRST_COMMANDS = ("trustax reproduce table-1", REPORT_COMMAND)


def write_report(results: Path, path: Path, figures: bool = True) -> Path:
    """Write the report of a results folder, optionally with the paper's figures.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> write_report(folder, folder / "report.html", figures=False).name
    'report.html'
    """
    write_atomic(path, _page(_data(results, figures)))
    return path


def _data(results: Path, figures: bool) -> dict[str, Any]:
    outcomes = outcomes_in(results, PROTOCOLS)
    labeled = [
        (outcome, protocol, label)
        for protocol, found in outcomes.items()
        for outcome, label in zip(found, outcome_labels(found), strict=True)
    ]
    return {
        "palette": COLORS,
        "protocols": [{"name": name, "words": PROTOCOL_DESCRIPTIONS[name]} for name in PROTOCOLS],
        "protocol": max(PROTOCOLS, key=lambda name: len(outcomes[name])),
        "tables": table_data(results),
        "curves": [curve_data(*one, target_of(one[0])) for one in labeled],
        "insides": [
            *(outcome_internals(*one) for one in labeled if one[0].details),
            *(
                inside
                for name in PROTOCOLS
                for trace in read_traces(results, name)
                for inside in trace_internals(trace)
            ),
        ],
        "figures": figure_data(results) if figures else [],
        "making": provenance_data([*(outcome for outcome, _, _ in labeled), *read(results / TIMED)]),
        "commands": FIRST_COMMANDS,
        "all_commands": [
            *(f"trustax reproduce {name} --protocol both" for name in (*EXPERIMENTS, *TRACED)),
            REPORT_COMMAND,
        ],
    }


def _page(data: dict[str, Any]) -> str:
    script = "\n".join(['"use strict";', "{", *map(_page_file, SCRIPTS), "}"])
    parts = {
        "policy": f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "style": _page_file("page.css"),
        "data": _escaped(json.dumps(data, allow_nan=False, separators=(",", ":"))),
        "script": script,
    }
    # One pass, so that placeholders inside the inserted text are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _page_file("page.html"))


def _escaped(text: str) -> str:
    """Escape `<` in JSON, so that HTML finds no tag or comment in it.

    >>> _escaped('["</script><!--"]')
    '["\\\\u003c/script>\\\\u003c!--"]'
    """
    return text.replace("<", "\\u003c")


def _hash(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _page_file(name: str) -> str:
    return (PAGE_FILES / name).read_text(encoding="utf-8")
