"""The report in a real browser: it draws what it should, follows its controls, and asks the network for nothing."""

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if PROGRAM is None:
        pytest.skip("no Chromium was found, so no one looked at the page; apt-get install chromium")
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
    browser.look()
    browser.open("about:blank")  # or a new part of the same page would not load it anew
    browser.open(f"{page.as_uri()}#{part}")
    return browser


def go_to(browser: Chromium, part: str) -> None:
    browser.run(f"new Promise((done) => {{ location.hash = {part!r}; setTimeout(done, 50); }})")


def traces(browser: Chromium, kind: str) -> list[dict[str, Any]]:
    """What Plotly has drawn of a kind in the chart of the curves."""
    script = "document.getElementById('curve-chart').data.map(({name, meta, x, y, line}) => ({name, meta, x, y, line}))"
    return [trace for trace in browser.run(script) if trace["meta"] == kind]


def click(browser: Chromium, selector: str, words: str) -> None:
    """Click the element that has these words."""
    found = f"[...document.querySelectorAll({selector!r})]"
    browser.run(f"{found}.find((one) => one.textContent.trim() === {words!r}).click()")


def press(browser: Chromium, key: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        extra = {"text": text} if kind == "keyDown" and text else {}
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)


def complaints(browser: Chromium) -> list[Any]:
    """Errors and whatever the page wrote to the console."""
    told = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    return [event["params"] for event in browser.events if event["method"] in told]


def requests(browser: Chromium) -> list[str]:
    sent = [event["params"]["request"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    return [request["url"] for request in sent if not request["url"].startswith("data:")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_part_fits_every_width_without_a_complaint_or_a_request(
    browser: Chromium, page: Path, theme: str
) -> None:
    opened(browser, page, "overview")
    for width in (400, 1600):
        browser.look(width, theme=theme)
        for part in ("overview", "tables", "curves", "inside", "figures", "making"):
            go_to(browser, part)
            assert browser.run("document.querySelector('main > section:not([hidden])').id") == f"page-{part}"
            assert browser.run("document.querySelector('main > section:not([hidden])').innerText.length > 20")
            assert browser.run("document.documentElement.scrollWidth") <= width, (part, width)
    assert complaints(browser) == []
    assert requests(browser) == [page.as_uri()]


def test_the_policy_stops_a_script_that_would_call_home(browser: Chromium, page: Path) -> None:
    opened(browser, page, "overview")
    answer = browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => String(error))")
    assert "sent" not in answer
    assert "Content Security Policy" in str(complaints(browser))
    browser.run("document.head.append(Object.assign(document.createElement('script'), {text: 'window.harmed = 1'}))")
    assert browser.run("window.harmed === undefined")


def test_a_name_stays_text_everywhere(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "all")
    assert EVIL in browser.run("document.querySelector('.methods').innerText")
    assert EVIL in browser.run("document.querySelector('#page-curves table').innerText")
    # also in Plotly, which would make some tags of it
    browser.run("Plotly.relayout('curve-chart', {showlegend: true}).then(() => 0)")
    shown = browser.run("[...document.querySelectorAll('#curve-chart .legendtext')].map((one) => one.textContent)")
    assert EVIL in shown
    assert browser.run("document.querySelectorAll('main img, main b, main script').length") == 2  # the protocols' names
    assert browser.run("window.harmed === undefined")


def test_ticks_choose_the_methods(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    # the better of MCPO's two, and the others
    assert [trace["name"] for trace in traces(browser, "curve")][:2] == ["MCPO N=10", "PPO ε=0.2"]
    click(browser, "button", "none")
    assert traces(browser, "curve") == []
    click(browser, ".methods label", "MCPO N=40")
    (curve,) = traces(browser, "curve")
    assert curve["name"] == "MCPO N=40"
    assert curve["line"]["color"] == COLORS[0]
    click(browser, "button", "all")
    drawn = traces(browser, "curve")
    assert len(drawn) == 4
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in drawn}) == 4


def test_curves_are_drawn_as_mean_and_band_or_seed_by_seed(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "none")
    click(browser, ".methods label", "MCPO N=10")
    (mean,), (band,), (paper,) = (traces(browser, kind) for kind in ("curve", "band", "paper"))
    assert mean["y"] == [None, *range(6, 13)]
    # there and back again, one deviation above and below
    assert band["y"] == [*range(11, 18), *range(7, 0, -1)]
    assert paper["y"] == [-146.88, -146.88]
    assert paper["line"]["dash"] == "dash"
    click(browser, ".alternatives label", "each")
    assert [trace["y"] for trace in traces(browser, "curve")] == [[None, *range(1, 8)], [None, *range(11, 18)]]
    assert traces(browser, "band") == []
    click(browser, ".side > .tick", "the paper’s final values")
    assert traces(browser, "paper") == []


def test_the_slider_smooths(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/pendulum")
    click(browser, "button", "none")
    click(browser, ".methods label", "MCPO N=40")
    assert traces(browser, "curve")[0]["y"] == [1, -1] * 20
    browser.run("document.querySelector('input[type=range]').focus()")
    press(browser, "End", 35)
    assert "20 % of the run" in browser.run("document.querySelector('.side').innerText")
    # a tenth of 40 points to either side: nine of them, which cancel but for the one in the middle
    smooth = traces(browser, "curve")[0]["y"]
    assert smooth[4:36] == pytest.approx([1 / 9, -1 / 9] * 16)
    assert smooth[0] == pytest.approx(1 / 5)


def test_a_choice_of_task_protocol_and_measure_changes_what_is_drawn(browser: Chromium, page: Path) -> None:
    opened(browser, page, "curves/unlock")
    assert browser.run("document.querySelector('#page-curves select').value") == "unlock"
    assert browser.run("document.querySelector('input[name=protocol]:checked').value") == "bootstrapped"
    click(browser, ".alternatives label", "success rate")
    (curve,) = traces(browser, "curve")
    assert curve["y"][-1] == pytest.approx((7 + 17) / 2 / 20)


def test_the_inside_of_a_run_is_drawn_and_compared(browser: Chromium, page: Path) -> None:
    opened(browser, page, "inside")
    script = "[...document.querySelectorAll('#page-inside .chart')].map((one) => one.data?.map(({meta}) => meta) ?? [])"
    drawn = browser.run(script)
    assert drawn[0] == ["band", "alpha"]
    assert drawn[2] == ["band", "kl_old_new", "band", "kl_old_virtual"]
    assert browser.run("document.querySelectorAll('#page-inside .chart')[2].layout.yaxis.type") == "log"
    assert drawn[5] == []
    hidden = browser.run("[...document.querySelectorAll('#page-inside figure')].map((one) => one.hidden)")
    assert hidden == [not panel for panel in drawn]
    browser.run(
        "{ const list = document.querySelectorAll('#page-inside select')[1]; list.value = '1'; "
        "list.dispatchEvent(new Event('change')); }"
    )
    assert browser.run(script)[0] == ["band", "alpha"] * 2


def test_a_table_is_sorted_with_the_keyboard(browser: Chromium, page: Path) -> None:
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
    ink = "document.getElementById('curve-chart').layout.font.color"
    colors = f"[getComputedStyle(document.body).backgroundColor, {ink}]"
    light = browser.run(colors)
    browser.look(theme="dark")
    dark = browser.run(f"new Promise((done) => setTimeout(() => done({colors}), 100))")
    assert light == ["rgb(255, 255, 255)", "#1d2329"]
    assert dark == ["rgb(18, 22, 27)", "#e7ebef"]


def test_an_empty_folder_says_what_to_run(browser: Chromium, tmp_path: Path) -> None:
    opened(browser, write_report(folder_of(tmp_path), tmp_path / "report.html"), "overview")
    for part in ("overview", "curves", "inside", "figures"):
        go_to(browser, part)
        assert "trustax reproduce table-1" in browser.run(f"document.getElementById('page-{part}').innerText")
    assert complaints(browser) == []


def test_the_headline_counts_what_the_tables_say_each_of_the_papers_numbers_once(
    browser: Chromium, tmp_path: Path
) -> None:
    results = Path(__file__).parents[2] / "results"
    browser = opened(browser, write_report(results, tmp_path / "report.html", figures=False), "overview")
    said = browser.run("document.querySelector('.sums dd').textContent")
    extents = " ".join(
        table(name, results, which).extent for name in TABLES if name != CONTAINED for which in PROTOCOLS
    )
    match, differ = (sum(map(int, re.findall(rf"(\d+) {word}", extents))) for word in ("match", "differ"))
    assert said == f"{match} of {match + differ}"
    assert match > 30
