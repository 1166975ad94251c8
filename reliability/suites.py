"""R14, R15, R18 and R19: tests of the suite that belong to a promise, counted one by one."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from reliability.rows import Row
from reliability.runs import ROOT

EXAMPLES = 500


def check_autoreset(full: bool) -> Row:
    row = Row("R14", "episodes that end, by every engine, equal those of a scripted environment; GAE at both ends")
    return _count_tests(row, ["tests/envs/test_scripted.py", "tests/ops/test_advantages.py"])


def check_numerics(full: bool) -> Row:
    row = Row("R15", f"numbers against float64 references; {EXAMPLES if full else 20} random examples per property")
    files = ["distributions", "natural_gradient", "kfac", "clip_ranges", "objectives", "running_statistics"]
    examples = ["--hypothesis-profile=full"] if full else []
    return _count_tests(row, [f"tests/ops/test_{name}.py" for name in files] + ["tests/test_properties.py"], examples)


def check_versions(full: bool) -> Row:
    row = Row("R18", "files of earlier versions load")
    row.not_run = "other versions of Python and JAX, and moves between CPU and GPU"
    tests = ["tests/test_training.py", "tests/test_agent.py"]
    return _count_tests(row, tests, ["-k", "older_file"])


def check_exports(full: bool) -> Row:
    return _count_tests(Row("R19", "exported policies against our own"), ["tests/storage/test_export.py"])


def _count_tests(row: Row, tests: list[str], options: list[str] | None = None) -> Row:
    """Run tests with pytest and count them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        arguments = [*tests, *(options or []), "-n", "0", f"--junitxml={report}"]
        # The tests have their own settings of JAX.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
        subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, capture_output=True, env=environment)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    if not cases:
        row.count(f"pytest found no tests in {', '.join(tests)}")
    for case in cases:
        bad = case.find("failure") is not None or case.find("error") is not None
        if case.find("skipped") is None:
            row.count(f"{case.get('classname')}: {case.get('name')}" if bad else None)
    return row


CHECKS = {"R14": check_autoreset, "R15": check_numerics, "R18": check_versions, "R19": check_exports}
