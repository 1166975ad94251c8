"""The examples in the docstrings run, and give what they say."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import trustax

MODULES = ["trustax", *(found.name for found in pkgutil.walk_packages(trustax.__path__, "trustax."))]


def examples_in(module: ModuleType) -> Iterator[doctest.DocTest]:
    """All examples of a module.

    `doctest` itself passes over functions that the type checker of the tests has wrapped.
    """
    yield from doctest.DocTestFinder(recurse=False).find(module)
    names = dict(vars(module))
    for name, thing in names.items():
        if getattr(thing, "__module__", None) == module.__name__ and getattr(thing, "__doc__", None):
            finder = doctest.DocTestFinder(exclude_empty=True)
            yield from finder.find(thing, f"{module.__name__}.{name}", module=False, globs=names)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    for test in examples_in(importlib.import_module(name)):
        report: list[str] = []
        assert runner.run(test, out=report.append).failed == 0, "".join(report)


def test_examples_are_found_in_wrapped_functions_and_in_classes() -> None:
    for module, name in (
        ("ops.advantages", "gae"),
        ("ops.distributions", "DiagonalGaussian"),
        ("ops.transforms", "over_seeds"),
    ):
        found = examples_in(importlib.import_module(f"trustax.{module}"))
        assert f"trustax.{module}.{name}" in {test.name for test in found if test.examples}
