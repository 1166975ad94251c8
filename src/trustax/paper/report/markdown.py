"""Writes all tables and figures of the paper as one Markdown page: `docs/reproduction.md`.

The page is generated from the results alone, and lists what is missing.
"""

from collections.abc import Iterator
from pathlib import Path

from trustax.paper.experiments import PROTOCOLS
from trustax.paper.figures import FIGURES, TITLES, save_figure
from trustax.paper.tables.layout import PaperTable
from trustax.paper.tables.tables import CONTAINED, TABLES, table
from trustax.storage.atomic import write_atomic

FIGURES_FOLDER = "figures"

INTRODUCTION = """\
# Reproduction of the paper

`trustax report results --output docs/reproduction.md` writes this page from the files in `results/`, and `trustax
report results` writes it as an interactive HTML page. `trustax reproduce NAME` runs what is missing in a table or
figure.

There are results under two protocols. **paper**: a time limit counts as a termination, the default of the repository
that the paper names for its PPO. **bootstrapped**: an episode that reaches its time limit bootstraps from the value of
its last observation. For Table 2, compare the bootstrapped results with the paper: that repository's
command for MuJoCo bootstraps time limits.

`MCPO N=10 default` is `MCPO()`. `MCPO N=10` has the paper's β_max = 10 and decides β once an epoch; `literal` decides
it at every minibatch; `one target` is `MCPO()` with one KL target for any number of action dimensions.
[fidelity.md](fidelity.md) says what the paper leaves open about MCPO, and what we chose.

*matches*: the 95% intervals of our mean and the paper's overlap. With two or three seeds, our interval is nearly their
range, which covers the true mean less often. *short*: trained for fewer steps than in the paper. *not run*: no result
yet.
"""


def write_page(results: Path, path: Path, figures: bool = True) -> Path:
    """Write the page and, optionally, its figures into a folder beside it."""
    tables = {name: [table(name, results, protocol) for protocol in PROTOCOLS] for name in TABLES}
    parts = [INTRODUCTION, _summary(tables)]
    parts += [part for name, found in tables.items() if name != CONTAINED for part in _table(found)]
    parts += [part for name in FIGURES for part in _figure(name, results, path) if figures]
    write_atomic(path, "\n".join(parts))
    return path


def _summary(tables: dict[str, list[PaperTable]]) -> str:
    lines = ["## Status", "", f"| what | command | {' | '.join(PROTOCOLS)} |", f"|---|---|{'---|' * len(PROTOCOLS)}"]
    for name, shown in tables.items():
        lines.append(f"| {shown[0].title} | `trustax reproduce {name}` | {' | '.join(one.extent for one in shown)} |")
    note = "The commands run the protocol paper; `--protocol bootstrapped` runs the other one, `--protocol both` both."
    return "\n".join([*lines, "", note, ""])


def _table(found: list[PaperTable]) -> Iterator[str]:
    title = found[0].title
    yield f"## {title}\n"
    texts = [shown.markdown().removeprefix(f"**{title}**\n\n") for shown in found]
    yield from dict.fromkeys(texts)  # the table of speeds is the same under both protocols


def _figure(name: str, results: Path, page: Path) -> Iterator[str]:
    pictures = [
        picture
        for protocol in PROTOCOLS
        for picture in save_figure(name, results, protocol, page.parent / FIGURES_FOLDER)
    ]
    yield f"## {TITLES[name]}\n"
    yield "\n\n".join(f"![{picture.stem}]({FIGURES_FOLDER}/{picture.name})" for picture in pictures) or "Not run yet."
    yield ""
