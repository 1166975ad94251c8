"""The documentation site builds without a warning, has an entry for every public name, and needs no network.

The tutorials are not executed here; `make docs` does that.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trustax

pytestmark = pytest.mark.docs
sphinx_inventory = pytest.importorskip("sphinx.util.inventory")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-q", "-D", "nb_execution_mode=off", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_public_name_has_an_entry(site: Path) -> None:
    inventory = sphinx_inventory.InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    assert {f"trustax.{name}" for name in trustax.__all__} - documented == set()


def test_a_page_needs_no_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    tags = [
        tag for page in pages for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text("utf-8"))
    ]
    assert [tag for tag in tags if re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag)] == []
    styles = [style.read_text("utf-8") for style in site.rglob("*.css")]
    assert [style for style in styles if re.search(r"@import|url\(['\"]?(?:https?:)?//", style)] == []


def test_every_link_of_the_site_resolves(site: Path) -> None:
    pages = {page: page.read_text("utf-8") for page in site.rglob("*.html")}
    ids = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if re.match(r"\w+:", link):
                continue
            if not target.exists() or (anchor and target in ids and anchor not in ids[target]):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_the_settings_of_a_method_are_those_of_its_fields(site: Path) -> None:
    text = (site / "methods" / "ppo.html").read_text("utf-8")
    rows = re.findall(r"<tr.*?</tr>", text, re.DOTALL)
    (row,) = (row for row in rows if "clip_range</span>" in row and "value_clip" not in row and "schedule" not in row)
    words = " ".join(re.sub(r"<[^>]+>", " ", row).split())
    assert words == "clip_range 0.2 ≥ 0 Clip range of the ratio of new to old probability (ε)."
