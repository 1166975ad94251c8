"""The command that writes the report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from trustax.errors import TrustaxError
from trustax.paper.report import write_report
from trustax.paper.report.markdown import write_page


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write all results as one page: tables, curves, figures, the inside of MCPO.

    HTML opens from disk without a network; a page that ends in .md is Markdown, with its figures beside it.
    """

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """The folder of results, as trustax reproduce leaves it."""
    output: Path = Path("report.html")
    """The page, .html or .md."""
    figures: bool = True
    """Draw the paper's figures too."""

    def __call__(self) -> None:
        if not self.results.is_dir():
            raise TrustaxError(f"{self.results} is no folder of results; trustax reproduce makes one")
        write = write_page if self.output.suffix == ".md" else write_report
        path = write(self.results, self.output, self.figures)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
