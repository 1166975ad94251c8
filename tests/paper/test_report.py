"""The report has the right numbers, and is one safe file for any content of the results."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tests.paper.made import EVIL, NAN, folder_of, outcome
from trustax.algorithms import MCPO
from trustax.errors import TrustaxError
from trustax.paper import results
from trustax.paper.methods import method
from trustax.paper.report import PAGE_FILES, _hash, write_report
from trustax.paper.report.curves import outcome_labels, rounded
from trustax.paper.report.internals import outcome_internals, trace_internals
from trustax.paper.report.tables import RAN
from trustax.paper.tables.cells import Verdict
from trustax.paper.tasks import task
from trustax.paper.trace.trace import Segment, Trace
from trustax.plotting.curves import COLORS


class Reader(HTMLParser):
    """Parses the scripts and addresses of the page, as a browser would."""

    def __init__(self, page: str):
        super().__init__()
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag == "script":
            self.scripts.append("")
        if tag == "meta" and named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"] or ""

    def handle_data(self, text: str) -> None:
        if self.lasttag == "script" and self.scripts[-1] == "":
            self.scripts[-1] = text


def read(page: Path) -> tuple[Reader, dict[str, Any]]:
    reader = Reader(page.read_text(encoding="utf-8"))
    return reader, json.loads(reader.scripts[0])


def test_curves_are_rounded_and_have_the_papers_final_value(tmp_path: Path) -> None:
    short = outcome("PPO ε=0.2", returns=np.array([[1234.5678, NAN]] * 2), steps=[1, 2])
    page = write_report(folder_of(tmp_path, outcome(), short), tmp_path / "new" / "report.html", figures=False)
    data = read(page)[1]
    first, second = data["curves"]
    assert (first["task"], first["protocol"], first["label"]) == ("pendulum", "paper", "MCPO N=10")
    assert first["values"] == [[None, *range(1, 8)], [None, *range(11, 18)]]
    assert first["paper"] == {"mean": -146.88, "deviation": 3.78}
    assert second["values"] == [[1235.0, None]] * 2
    assert data["palette"] == list(COLORS)
    assert data["protocol"] == "paper"


def test_tables_have_verdicts(tmp_path: Path) -> None:
    in_full = [8192, 999_424]
    good, bad = (outcome("MCPO N=10", steps=in_full, returns=np.full((2, 2), value)) for value in (-147.0, -200.0))
    for each, verdict in ((good, "matches"), (bad, "differs, worse")):
        data = read(write_report(folder_of(tmp_path, each), tmp_path / "report.html", figures=False))[1]
        (table,) = (table for table in data["tables"] if table["name"] == "table-1")
        (row,) = (row for row in table["protocols"]["paper"]["rows"] if row["name"] == "MCPO N=10")
        assert row["cells"][0]["verdict"] == verdict
        assert row["cells"][0]["paper"] == "−146.88 ± 3.78"
        assert row["cells"][2]["verdict"] == "not run"
        assert [table["name"] for table in data["tables"] if table["alike"]] == ["cost"]


def test_long_curves_are_thinned_to_keep_the_page_small(tmp_path: Path) -> None:
    steps = np.arange(1, 1001) * 8192
    noise = np.random.default_rng(0).normal(size=(5, 1000)) * 1e3
    folder = folder_of(tmp_path)
    long = outcome("PPO ε=0.2", steps=steps.tolist(), returns=noise)
    empty = write_report(folder, tmp_path / "report.html", figures=False).stat().st_size
    for name in ("PPO ε=0.1", "PPO ε=0.2", "PPO ε=0.3", "PPO ε=0.5"):
        results.write(replace(long, method=name, run=task("pendulum").run(method(name), num_seeds=5)), folder / "paper")
    page = write_report(folder, tmp_path / "report.html", figures=False)
    curves = read(page)[1]["curves"]
    assert [len(curve["steps"]) for curve in curves] == [200] * 4
    assert {curve["steps"][-1] for curve in curves} == {8192 * 1000}
    assert (page.stat().st_size - empty) / 4 < 12_000


def test_labels_distinguish_outcomes() -> None:
    run = outcome().run
    constant = replace(run, algorithm=replace(run.algorithm, learning_rate_schedule="constant"))
    shorter = replace(run, total_timesteps=250_000)
    made = [outcome(), outcome(run=constant), outcome(run=shorter), outcome(where="hopper")]
    assert outcome_labels(made) == [
        "MCPO N=10, 1M steps",
        "MCPO N=10, learning_rate_schedule=constant",
        "MCPO N=10, 250k steps",
        "MCPO N=10",
    ]


def test_internals_count_writes_per_iteration() -> None:
    internals = outcome_internals(outcome(), "paper", "MCPO N=10")
    assert internals["series"]["alpha"][0] == rounded(0.1 * np.arange(1, 9))
    # 10 epochs of 64 minibatches, of which 1% wrote at first
    assert internals["series"]["writes"][0][0] == 6.4
    assert "attention_entropy" not in internals["series"]


def test_internals_of_a_trace_are_the_whole_run_and_its_recorded_updates() -> None:
    run = replace(task("unlock").run(MCPO()), algorithm=MCPO(num_epochs=1, num_minibatches=4))

    def segment(number: int, written: list[int]) -> Segment:
        alpha = np.array([0.1, 0.2, 0.3, 0.4])
        old = 4 * number
        return Segment(number, old, np.array(written), np.array([old, old, old + 1, old + 1]), {"alpha": alpha})

    trace = Trace(
        task="unlock",
        method="MCPO N=10",
        protocol="paper",
        run=run,
        segments=[segment(0, [2]), segment(3, [13, 16]), segment(4, [17])],
        means={"iteration": np.arange(5), "written": np.array([0.25, 0.0, 0.5, 0.5, 0.25])},
        checkpoints=[],
        seconds=1.0,
        versions={},
        hardware="",
    )
    whole, first, last = trace_internals(trace)
    assert whole["x"] == [8192 * number for number in range(1, 6)]
    assert whole["series"] == {"writes": [[1, 0, 2, 2, 1], None]}
    assert first["x"] == [1, 2, 3, 4]
    assert last["x"] == list(range(13, 21))
    assert last["series"]["writes"][0] == [1, 1, 1, 2, 1, 1, 1, 1]
    # before update 13, with which the iteration begins, the newest policy is number 12 and has the age 0
    assert last["series"]["attended_age"][0][:4] == [0, 1, 1, 2]
    assert "updates 13 to 20" in last["label"]


def test_the_page_is_one_file_that_makes_no_requests(tmp_path: Path) -> None:
    page = write_report(folder_of(tmp_path, outcome()), tmp_path / "report.html", figures=False)
    reader, _ = read(page)
    assert all(address.startswith("#") for address in reader.addresses)
    assert reader.policy.startswith("default-src 'none'; ")
    assert [_hash(code) in reader.policy for code in reader.scripts] == [False, True]
    assert "unsafe-inline" not in re.findall(r"script-src [^;]*", reader.policy)[0]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_a_name_cannot_close_the_data_element(tmp_path: Path) -> None:
    reader, data = read(write_report(folder_of(tmp_path, outcome(EVIL)), tmp_path / "report.html", figures=False))
    assert len(reader.scripts) == 2
    assert data["curves"][0]["label"] == EVIL


def test_a_writing_error_is_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TrustaxError, match="cannot be written") as caught:
        write_report(folder, tmp_path / "file" / "report.html", figures=False)
    assert "\n" not in str(caught.value)


def test_the_page_defines_every_verdict() -> None:
    script = (PAGE_FILES / "elements.js").read_text(encoding="utf-8")
    known = re.findall(r"^  (?:\"(.+)\"|(\w+)): \{ symbol", script, re.MULTILINE)
    assert {quoted or bare for quoted, bare in known} == {verdict or RAN for verdict in get_args(Verdict)}


def luminance(color: np.ndarray) -> float:
    """The relative luminance of WCAG 2."""
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_all_text_has_enough_contrast_in_both_themes() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", (PAGE_FILES / "page.css").read_text(encoding="utf-8"), re.DOTALL)
    for style in (light, light + dark):
        tint = float(re.findall(r"--tint: (\d+)%", style)[-1]) / 100
        colors = {
            name: np.array([int(digits[place : place + 2], 16) for place in (0, 2, 4)]) / 255
            for name, digits in re.findall(r"--([a-z-]+): #([0-9a-f]{6});", style)
        }
        for ground in (colors["paper"], colors["surface"]):
            for name in ("ink", "faint", "accent"):
                assert contrast(colors[name], ground) >= 4.5, name
            for verdict in ("matches", "better", "worse", "short", "ran", "missing"):
                chip = tint * colors[verdict] + (1 - tint) * ground
                assert contrast(colors[f"{verdict}-ink"], chip) >= 4.5, verdict
