"""Writes measured tables into pages of the documentation."""

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
BENCHMARKS = DOCS / "benchmarks.md"


def replaced(page: str, marker: str, text: str) -> str:
    """The page with the text after the marker, up to the next heading or the end.

    >>> replaced("before\\n<!-- table -->\\nold\\n\\n## next\\n", "<!-- table -->\\n", "new")
    'before\\n<!-- table -->\\n\\nnew\\n\\n## next\\n'
    """
    if marker not in page:
        raise ValueError(f"the page has no line {marker.strip()}")
    before, _, after = page.partition(marker)
    _, heading, rest = after.partition("\n## ")
    return f"{before}{marker}\n{text}\n{heading}{rest}"


def write(path: Path, marker: str, text: str) -> None:
    """Put the text into a page, after the marker."""
    path.write_text(replaced(path.read_text(encoding="utf-8"), marker, text), encoding="utf-8")
