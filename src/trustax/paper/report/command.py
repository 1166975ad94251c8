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
    """Write all results to one page: tables, curves, figures and the internals of MCPO.

    The HTML page works offline. If the output ends in .md, it is Markdown with the figures in a folder beside it.
    """

    results: Annotated[Path, tyro.conf.Positional] = Path("results")
    """The results folder that trustax reproduce writes."""
    output: Path = Path("report.html")
    """The file to write, .html or .md."""
    figures: bool = True
    """Include the paper's figures."""

    def __call__(self) -> None:
        if not self.results.is_dir():
            raise TrustaxError(f"{self.results} is not a folder; create the results with trustax reproduce")
        write = write_page if self.output.suffix == ".md" else write_report
        path = write(self.results, self.output, self.figures)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
