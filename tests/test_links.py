"""Links between the pages lead somewhere: files exist, and so do the headings that they name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts)])


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MyST make them.

    >>> sorted(anchors(ROOT / "docs" / "vocabulary.md"))
    ['one-value-for-each-learner', 'one-vocabulary', 'schedules']
    """
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith(("http:", "https:")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_resolve(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](page.md#a-title) [b](#a-title) [c](no.md) [d](#no)\n```\n[e](code)\n```\n")
    assert broken(page) == ["no.md", "#no"]
