"""The paper's figures as the report shows them: pictures as data URIs, and which of them could be drawn."""

import base64
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trustax.paper.experiments import PROTOCOLS
from trustax.paper.figures import FIGURES, TITLES, save_figure

DRAWN_BY_THE_PAGE = ("curves",)


def figure_data(results: Path) -> list[dict[str, Any]]:
    """Every figure with its pictures under each protocol; none where nothing has been run for it."""
    return [
        {
            "name": name,
            "title": TITLES[name],
            "pictures": {protocol: _pictures(name, results, protocol) for protocol in PROTOCOLS},
        }
        for name in FIGURES
        if name not in DRAWN_BY_THE_PAGE
    ]


def _pictures(name: str, results: Path, protocol: str) -> list[str]:
    with TemporaryDirectory() as folder:
        return [_as_data(path) for path in save_figure(name, results, protocol, Path(folder))]


def _as_data(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
