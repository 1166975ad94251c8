"""The report's figures: images as data URIs for every figure that could be drawn."""

import base64
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from trustax.paper.experiments import PROTOCOLS
from trustax.paper.figures import FIGURES, TITLES, save_figure

INTERACTIVE = ("curves",)
NUM_COLORS = 256


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
    """The image with a palette of its own, which divides its size by three; figures have few colors."""
    buffer = BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").quantize(NUM_COLORS, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
