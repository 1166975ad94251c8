"""The report in a real browser: it draws the right curves, its controls work, and it makes no requests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.paper.chromium import PROGRAM, Chromium
from tests.paper.made import EVIL, folder_of, outcome
from trustax.paper.experiments import PROTOCOLS
from trustax.paper.report import write_report
from trustax.paper.tables.tables import CONTAINED, TABLES, table
from trustax.plotting.curves import COLORS

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if PROGRAM is None:
        pytest.skip("no Chromium found to test the page; apt-get install chromium")
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, both protocols, one method with an evil name."""
    folder = tmp_path_factory.mktemp("report")
    made = folder_of(
        folder,
        outcome("MCPO N=10"),
        outcome("MCPO N=40", steps=list(range(100, 4100, 100)), returns=np.tile([1.0, -1.0], (2, 20)), details={}),
        outcome("PPO ε=0.2"),
        outcome(EVIL),
        outcome("PPO ε=0.2", where="unlock", protocol="bootstrapped"),
    )
    return write_report(made, folder / "report.html", figures=False)


def opened(browser: Chromium, page: Path, part: str) -> Chromium:
    browser.set_window()
    browser.open("about:blank")  # otherwise a new hash would not reload the page
    browser.open(f"{page.as_uri()}#{part}")
    return browser


def go_to(browser: Chromium, part: str) -> None:
    browser.run(f"location.hash = {part!r}")
    browser.wait_until(f"document.querySelector('main > section:not([hidden])').id === 'page-{part}'")


def traces(browser: Chromium, kind: str) -> list[dict[str, Any]]:
    """The traces of one kind in the chart of curves."""
    script = "document.getElementById('curve-chart').data.map(({says, ...trace}) => trace)"
    return [trace for trace in browser.run(script) if trace["meta"] == kind]


def click(browser: Chromium, selector: str, words: str) -> None:
    """Click the element with this text."""
    found = f"[...document.querySelectorAll({selector!r})]"
    browser.run(f"{found}.find((one) => one.textContent.trim() === {words!r}).click()")


def press(browser: Chromium, key: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        extra = {"text": text} if kind == "keyDown" and text else {}
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)


def complaints(browser: Chromium) -> list[Any]:
    """Errors and console messages of the page."""
    kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    return [event["params"] for event in browser.events if event["method"] in kinds]


def requests(browser: Chromium) -> list[str]:
    sent = [event["params"]["request"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    return [request["url"] for request in sent if not request["url"].startswith("data:")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_fits_every_width_without_errors_or_requests(browser: Chromium, page: Path, theme: str) -> None:
    opened(browser, page, "overview")
    for width in (400, 1600):
        browser.set_window(width, theme=theme)
        for part in ("overview", "tables", "curves", "inside", "figures", "making"):
            go_to(browser, part)
            assert browser.run("document.querySelector('main > section:not([hidden])').innerText.length > 20")
            browser.wait_until(f"document.documentElement.scrollWidth <= {width}")  # charts follow the window's size
    assert complaints(browser) == []
    assert requests(browser) == [page.as_uri()]


def test_charts_are_drawn_when_the_page_is_loaded(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    assert browser.run("document.querySelectorAll('#curve-chart path.line').length > 0")
    assert page.stat().st_size < 2e5


def move(browser: Chromium, x: float, y: float, kind: str = "mouseMoved", **extra: Any) -> None:
    """Move the mouse to a place in the chart of curves, in fractions of its width and height."""
    chart = "document.getElementById('curve-chart')"
    browser.run(f"{chart}.scrollIntoView({{block: 'center'}})")
    left, top, width, height = browser.run(f"(({{x, y, width, height}}) => [x, y, width, height])({BOX})")
    browser.send("Input.dispatchMouseEvent", type=kind, x=left + x * width, y=top + y * height, **extra)


BOX = "document.getElementById('curve-chart').getBoundingClientRect()"
TIP = "document.querySelector('#curve-chart .tip')"
LABELS = "[...document.querySelectorAll('#curve-chart text')].map((one) => one.textContent)"


def test_the_pointer_shows_values_and_zooms(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "none")
    click(browser, ".methods label", "MCPO N=40")
    click(browser, ".side > .tick", "the paper’s final values")
    before = browser.run(LABELS)
    move(browser, 0.5, 0.5)
    browser.wait_until(f"!{TIP}.hidden")
    said = browser.run(f"{TIP}.innerText")
    assert "environment steps per seed" in said
    assert re.search(r"MCPO N=40\s+−?1\.00 ± 0\.00", said)
    held = {"button": "left", "buttons": 1, "clickCount": 1}
    move(browser, 0.4, 0.5, "mousePressed", **held)
    move(browser, 0.6, 0.5, "mouseMoved", **held)
    move(browser, 0.6, 0.5, "mouseReleased", **held)
    browser.wait_until(f"JSON.stringify({LABELS}) !== JSON.stringify({before})")
    browser.run("document.querySelector('#curve-chart svg').dispatchEvent(new MouseEvent('dblclick'))")
    assert browser.run(LABELS) == before


def test_the_content_security_policy_blocks_requests(browser: Chromium, page: Path) -> None:
    opened(browser, page, "overview")
    answer = browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => String(error))")
    assert "sent" not in answer
    browser.wait_until(lambda: "Content Security Policy" in str(complaints(browser)))
    browser.run("document.head.append(Object.assign(document.createElement('script'), {text: 'window.harmed = 1'}))")
    assert browser.run("window.harmed === undefined")


def test_a_name_is_never_interpreted_as_markup(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "all")
    assert EVIL in browser.run("document.querySelector('.methods').innerText")
    assert EVIL in browser.run("document.querySelector('#page-curves table').innerText")
    move(browser, 0.5, 0.5)
    browser.wait_until(f"!{TIP}.hidden")
    assert EVIL in browser.run(f"{TIP}.innerText")
    assert browser.run("document.querySelectorAll('main img, main script, main td b').length") == 0
    assert browser.run("window.harmed === undefined")


def test_checkboxes_select_the_methods(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    # the better of the two settings of MCPO, and the other methods
    assert [trace["name"] for trace in traces(browser, "curve")][:2] == ["MCPO N=10", "PPO ε=0.2"]
    click(browser, "button", "none")
    assert traces(browser, "curve") == []
    click(browser, ".methods label", "MCPO N=40")
    (curve,) = traces(browser, "curve")
    assert curve["name"] == "MCPO N=40"
    assert curve["color"] == COLORS[0]
    click(browser, "button", "all")
    drawn = traces(browser, "curve")
    assert len(drawn) == 4
    assert len({(trace["color"], trace["dash"]) for trace in drawn}) == 4


def test_curves_are_drawn_as_mean_and_band_or_as_single_seeds(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "none")
    click(browser, ".methods label", "MCPO N=10")
    (mean,), (band,), (paper,) = (traces(browser, kind) for kind in ("curve", "band", "paper"))
    assert mean["y"] == [None, *range(6, 13)]
    # one standard deviation above from left to right, then below from right to left
    assert band["y"] == [*range(11, 18), *range(7, 0, -1)]
    assert paper["y"] == [-146.88, -146.88]
    assert paper["dash"] == "dash"
    click(browser, ".alternatives label", "each")
    assert [trace["y"] for trace in traces(browser, "curve")] == [[None, *range(1, 8)], [None, *range(11, 18)]]
    assert traces(browser, "band") == []
    click(browser, ".side > .tick", "the paper’s final values")
    assert traces(browser, "paper") == []


def test_the_slider_smooths_curves(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "none")
    click(browser, ".methods label", "MCPO N=40")
    assert traces(browser, "curve")[0]["y"] == [1, -1] * 20
    browser.run("document.querySelector('input[type=range]').focus()")
    press(browser, "End", 35)
    assert "20% of the run" in browser.run("document.querySelector('.side').innerText")
    # a tenth of 40 points to either side: nine of them, which cancel but for the one in the middle
    smooth = traces(browser, "curve")[0]["y"]
    assert smooth[4:36] == pytest.approx([1 / 9, -1 / 9] * 16)
    assert smooth[0] == pytest.approx(1 / 5)


def test_task_protocol_and_measure_can_be_selected(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/unlock")
    assert browser.run("document.querySelector('#page-curves select').value") == "unlock"
    assert browser.run("document.querySelector('input[name=protocol]:checked').value") == "bootstrapped"
    click(browser, ".alternatives label", "success rate")
    (curve,) = traces(browser, "curve")
    assert curve["y"][-1] == pytest.approx((7 + 17) / 2 / 20)


def test_the_internals_of_runs_are_drawn_and_compared(browser: Chromium, page: Path) -> None:
    opened(browser, page, "inside")
    script = "[...document.querySelectorAll('#page-inside .chart')].map((one) => one.data?.map(({meta}) => meta) ?? [])"
    drawn = browser.run(script)
    assert drawn[0] == ["band", "alpha"]
    assert drawn[2] == ["band", "kl_old_new", "band", "kl_old_virtual"]
    assert "10⁻" in browser.run("document.querySelectorAll('#page-inside .chart')[2].textContent")
    assert drawn[5] == []
    hidden = browser.run("[...document.querySelectorAll('#page-inside figure')].map((one) => one.hidden)")
    assert hidden == [not panel for panel in drawn]
    browser.run(
        "{ const list = document.querySelectorAll('#page-inside select')[1]; list.value = '1'; "
        "list.dispatchEvent(new Event('change')); }"
    )
    assert browser.run(script)[0] == ["band", "alpha"] * 2


def test_a_table_can_be_sorted_with_the_keyboard(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "all")
    browser.run("document.querySelectorAll('#page-curves th button')[1].focus()")
    press(browser, "Enter", 13, "\r")
    finals = "[...document.querySelectorAll('#page-curves tbody tr td:first-of-type')].map((one) => one.textContent)"
    assert browser.run("document.querySelectorAll('#page-curves th')[1].getAttribute('aria-sort')") == "descending"
    first = browser.run(finals)
    press(browser, "Enter", 13, "\r")
    assert browser.run(finals)[0] == first[-1] != first[0]


def test_the_theme_follows_the_system(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    ink = "getComputedStyle(document.querySelector('#curve-chart .label')).fill"
    colors = f"[getComputedStyle(document.body).backgroundColor, {ink}]"
    light = browser.run(colors)
    browser.set_window(theme="dark")
    browser.wait_until(f"{colors}.every((color, i) => color !== {light}[i])")
    dark = browser.run(colors)
    assert light == ["rgb(255, 255, 255)", "rgb(29, 35, 41)"]
    assert dark == ["rgb(18, 22, 27)", "rgb(231, 235, 239)"]


def test_an_empty_folder_shows_the_commands_to_run(browser: Chromium, tmp_path: Path) -> None:
    opened(browser, write_report(folder_of(tmp_path), tmp_path / "report.html"), "overview")
    for part in ("overview", "curves", "inside", "figures"):
        go_to(browser, part)
        assert "trustax reproduce table-1" in browser.run(f"document.getElementById('page-{part}').innerText")
    assert complaints(browser) == []


@pytest.mark.slow  # it writes the page of all results
def test_the_headline_counts_each_of_the_papers_numbers_once(browser: Chromium, tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "results"
    browser = opened(browser, write_report(results, tmp_path / "report.html", figures=False), "overview")
    said = browser.run("document.querySelector('.sums dd').textContent")
    extents = " ".join(
        table(name, results, which).extent for name in TABLES if name != CONTAINED for which in PROTOCOLS
    )
    match, differ = (sum(map(int, re.findall(rf"(\d+) {word}", extents))) for word in ("match", "differ"))
    assert said == f"{match} of {match + differ}"
    assert match > 30
