"""The whole reproduction as one HTML page that opens without a network: tables, curves, and the inside of MCPO.

Everything is inside the file: Plotly, style, script, and the numbers as JSON. A content security policy names the two
scripts by their hashes and forbids every request, so nothing that a results file says can run or call home.
"""

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from trustax.errors import TrustaxError
from trustax.paper.experiments import EXPERIMENTS, PROTOCOLS
from trustax.paper.report.curves import curve_data, labels_of, making_data, outcomes_in
from trustax.paper.report.figures import figure_data
from trustax.paper.report.internals import outcome_inside, trace_insides
from trustax.paper.report.tables import table_data, target_of
from trustax.paper.reproduce.plan import TIMED
from trustax.paper.reproduce.reproduce import TRACED
from trustax.paper.results import read
from trustax.paper.trace.trace import read_traces
from trustax.plotting.curves import COLORS
from trustax.storage.atomic import write_atomic

PARTS = files("trustax.paper.report") / "page"
SCRIPTS = ("elements.js", "charts.js", "overview.js", "curves.js", "inside.js", "page.js")
WORDS = {
    "paper": "counts a time limit as a termination, as the paper’s code base does.",
    "bootstrapped": "counts the value of what would have followed a time limit, as it should.",
}
WRITING = "trustax report results"
BEGINNING = ("trustax reproduce table-1", WRITING)


def write_report(results: Path, path: Path, figures: bool = True) -> Path:
    """Write the page of what is in a folder of results, with pictures of the paper's figures if they are wanted.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> write_report(folder, folder / "report.html", figures=False).name
    'report.html'
    """
    plotly = _plotly()  # before the work, lest it be in vain
    page = _page(_data(results, figures), plotly)
    write_atomic(path, page)
    return path


def _data(results: Path, figures: bool) -> dict[str, Any]:
    outcomes = outcomes_in(results, PROTOCOLS)
    labeled = [
        (outcome, protocol, label)
        for protocol, found in outcomes.items()
        for outcome, label in zip(found, labels_of(found), strict=True)
    ]
    return {
        "palette": COLORS,
        "protocols": [{"name": name, "words": WORDS[name]} for name in PROTOCOLS],
        "protocol": max(PROTOCOLS, key=lambda name: len(outcomes[name])),
        "tables": table_data(results),
        "curves": [curve_data(*one, target_of(one[0])) for one in labeled],
        "insides": [
            *(outcome_inside(*one) for one in labeled if one[0].details),
            *(inside for name in PROTOCOLS for trace in read_traces(results, name) for inside in trace_insides(trace)),
        ],
        "figures": figure_data(results) if figures else [],
        "making": making_data([*(outcome for outcome, _, _ in labeled), *read(results / TIMED)]),
        "commands": BEGINNING,
        "all_commands": [*(f"trustax reproduce {name} --protocol both" for name in (*EXPERIMENTS, *TRACED)), WRITING],
    }


def _page(data: dict[str, Any], plotly: str) -> str:
    script = "\n".join(['"use strict";', "{", *map(_part, SCRIPTS), "}"])
    allowed = " ".join(f"'sha256-{_hash(code)}'" for code in (plotly, script))
    parts = {
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'",
        "style": _part("page.css"),
        "data": _harmless(json.dumps(data, allow_nan=False, separators=(",", ":"))),
        "plotly": plotly,
        "script": script,
    }
    # In one go, so that what is put in is not searched for further marks.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _part("page.html"))


def _harmless(text: str) -> str:
    """JSON without the letters by which HTML could take a piece of it for a tag or a comment.

    >>> _harmless('["</script><!--"]')
    '["\\\\u003c/script>\\\\u003c!--"]'
    """
    return text.replace("<", "\\u003c")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise TrustaxError("the report needs Plotly; install it with pip install 'trustax[report]'") from None
    return str(get_plotlyjs())


def _hash(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")
