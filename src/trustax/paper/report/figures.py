"""The report's figures: images as data URIs for every figure that could be drawn."""

import base64
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trustax.paper.experiments import PROTOCOLS
from trustax.paper.figures import FIGURES, TITLES, save_figure

INTERACTIVE = ("curves",)


def figure_data(results: Path) -> list[dict[str, Any]]:
    """Every figure with its images by protocol; the list is empty if nothing has been run for it."""
    return [
        {
            "name": name,
            "title": TITLES[name],
            "pictures": {protocol: _pictures(name, results, protocol) for protocol in PROTOCOLS},
        }
        for name in FIGURES
        if name not in INTERACTIVE
    ]


def _pictures(name: str, results: Path, protocol: str) -> list[str]:
    with TemporaryDirectory() as folder:
        return [_data_uri(path) for path in save_figure(name, results, protocol, Path(folder))]


def _data_uri(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
