"""The Markdown page with all tables and figures."""

from pathlib import Path

import pytest

from tests.paper.made import folder_of, outcome
from trustax.paper.report.markdown import write_page
from trustax.paper.tables.tables import TABLES

pytestmark = pytest.mark.pages


@pytest.mark.slow  # it draws every empty figure; the other tests draw some
def test_a_page_without_results_lists_every_table_as_not_run(tmp_path: Path) -> None:
    page = write_page(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    for name in TABLES:
        assert f"`trustax reproduce {name}`" in page
    assert "24 cells: 0 in full, 0 short, 24 not run. | 24 cells: 0 in full" in page
    assert page.count("Not run yet.") == 9
    assert "matches |" not in page


def test_the_page_has_results_and_figures_by_protocol(tmp_path: Path) -> None:
    results = folder_of(tmp_path, outcome("PPO ε=0.2"), outcome("MCPO N=10", "unlock"))
    page = write_page(results, tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    assert "12.00 ± 5.00 (2/2)<br>[7.00, 17.00]<br>paper −514.28 ± 385.34<br>short" in page
    for picture in ("curves-pendulum-paper.png", "minigrid-paper.png"):
        assert f"(figures/{picture})" in page
        assert (tmp_path / "docs" / "figures" / picture).stat().st_size > 10_000
    assert "curves-pendulum-bootstrapped" not in page
