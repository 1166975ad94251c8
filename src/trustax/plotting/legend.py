"""The legend beside the curves: short names, and a figure that is large enough for them."""

import re
from collections.abc import Sequence
from math import ceil
from typing import Any

from matplotlib.figure import Figure

LEGEND_WIDTH = 2.0
"""Inches of a figure that are meant for its legend; the figure grows if the legend is wider."""
MAX_ROWS = 24
MAX_NAME_LENGTH = 60
START_LENGTH = 9
"""Characters at the start of a name that is cut, which are those of a method."""


def add_legend(figure: Figure, lines: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend to the right of the curves, where it covers none of them. Its title is what all names share."""
    shared, own = without_shared_settings(names)
    legend = figure.legend(
        lines,
        ["run"] * len(lines),
        loc="outside right center",
        ncols=ceil(len(lines) / MAX_ROWS),
        title="\n".join(shared) or None,
        alignment="left",
    )
    for text, name in zip(legend.get_texts(), _shortened(own), strict=True):
        # Set the text afterwards: Matplotlib drops labels that begin with an underscore.
        text.set_text(name)
    box = legend.get_window_extent()
    width, height = figure.get_size_inches()
    more = max(0.0, box.width / figure.dpi - LEGEND_WIDTH)
    figure.set_size_inches(width + more, max(height, box.height / figure.dpi + 0.4))


def without_shared_settings(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The method and the settings that all names share, and the rest of each name.

    >>> without_shared_settings(["mcpo memory_size=5 discount=0.9", "mcpo memory_size=10 discount=0.9"])
    (['mcpo', 'discount=0.9'], ['memory_size=5', 'memory_size=10'])
    >>> without_shared_settings(["mcpo memory_size=5", "ppo"])
    ([], ['mcpo memory_size=5', 'ppo'])
    """
    parts = [re.split(r" (?=\w+=)", name) for name in names]
    shared = [part for part in parts[0] if all(part in other for other in parts)]
    own = [" ".join(part for part in one if part not in shared) for one in parts]
    if not all(own) or len(set(own)) < len(names):
        return [], list(names)
    return shared, own


def _shortened(names: Sequence[str]) -> list[str]:
    """Names without their middles if they are too long; two names are never shown as the same.

    >>> _shortened(["mcpo a very long name of a folder for a run, which does not seem to end"])
    ['mcpo a ve… of a folder for a run, which does not seem to end']
    """
    end = START_LENGTH + 1 - MAX_NAME_LENGTH
    short = [name if len(name) <= MAX_NAME_LENGTH else f"{name[:START_LENGTH]}…{name[end:]}" for name in names]
    return [one if short.count(one) == 1 else name for one, name in zip(short, names, strict=True)]
