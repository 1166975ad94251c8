"""The house has four layers and one direction; this reads the imports and enforces it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import trustax

ROOT = Path(trustax.__file__).parent
FILES = {path: path.relative_to(ROOT.parent) for path in sorted(ROOT.rglob("*.py"))}
PLACES = {".".join(place.with_suffix("").parts).removesuffix(".__init__"): path for path, place in FILES.items()}
MATHEMATICS = {
    "trustax.types",
    "trustax.errors",
    "trustax.distributions",
    "trustax.networks",
    "trustax.adam",
    "trustax.advantages",
    "trustax.objectives",
    "trustax.observations",
    "trustax.loops",
    "trustax.metrics",
    "trustax.minimize",
    "trustax.clip_bounds",
    "trustax.curvature",
    "trustax.kfac",
    "trustax.memory",
    "trustax.attention",
    "trustax.normalize",
    "trustax.seeds",
}
ALGORITHMS = {name for name in PLACES if name.startswith("trustax.algorithms.")}
DANGEROUS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def imports(module: str) -> Iterator[str]:
    """Every module that a module imports, also inside functions; names of a package as its modules."""
    package = module if PLACES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(PLACES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            within = [f"{source}.{alias.name}" for alias in node.names]
            yield from {name if name in PLACES else source for name in within}


def of_the_house(module: str) -> set[str]:
    return {name for name in imports(module) if name.split(".")[0] == "trustax"}


@pytest.mark.parametrize("module", sorted(MATHEMATICS & PLACES.keys()))
def test_mathematics_imports_only_mathematics(module: str) -> None:
    assert of_the_house(module) <= MATHEMATICS


@pytest.mark.parametrize("module", sorted(ALGORITHMS))
def test_an_algorithm_imports_only_mathematics_and_the_contract(module: str) -> None:
    assert of_the_house(module) <= MATHEMATICS | {"trustax.algorithms.base"}


@pytest.mark.parametrize("module", sorted(MATHEMATICS & PLACES.keys() | ALGORITHMS))
def test_mathematics_and_algorithms_know_no_files_clocks_or_loggers(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(module)}
    assert not outside & {"os", "pathlib", "time", "datetime", "logging", "random", "gymnasium", "envpool", "rich"}


def test_the_runtime_does_not_import_the_paper() -> None:
    runtime = {name for name in PLACES if not name.startswith(("trustax.paper", "trustax.cli"))}
    assert not [name for name in runtime if any("trustax.paper" in used for used in of_the_house(name))]


def test_the_reader_of_imports_reads_all_forms() -> None:
    assert {"trustax.distributions", "trustax.types", "jax"} <= set(imports("trustax.networks"))
    assert "trustax.checkpoint" in of_the_house("trustax.agent")
    assert "trustax.algorithms.mcpo" in of_the_house("trustax.algorithms")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(FILES[path]))
def test_a_file_is_named_for_what_is_in_it(path: Path) -> None:
    assert not {"util", "utils", "common", "core", "helper", "helpers", "misc"} & {path.stem, path.parent.name}


@pytest.mark.parametrize("module", sorted(PLACES))
def test_nothing_is_unpickled_or_evaluated(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & DANGEROUS
    calls = [node.func for node in ast.walk(ast.parse(PLACES[module].read_text())) if isinstance(node, ast.Call)]
    assert not {call.id for call in calls if isinstance(call, ast.Name)} & {"eval", "exec", "compile", "__import__"}
