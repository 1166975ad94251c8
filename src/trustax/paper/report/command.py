"""The command that writes the report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from trustax.paper.report import write_report


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write all results as one HTML page that opens without a network: tables, curves, figures, the inside of MCPO."""

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """The folder of results, as trustax reproduce leaves it."""
    output: Path = Path("report.html")
    """The page."""
    figures: bool = True
    """Draw the paper's figures too."""

    def __call__(self) -> None:
        path = write_report(self.results, self.output, self.figures)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
