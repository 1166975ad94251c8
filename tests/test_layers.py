"""Imports point one way, from the paper down to arrays; this reads them and enforces it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import trustax

ROOT = Path(trustax.__file__).parent
FILES = {path: path.relative_to(ROOT.parent) for path in sorted(ROOT.rglob("*.py"))}
PLACES = {".".join(place.with_suffix("").parts).removesuffix(".__init__"): path for path, place in FILES.items()}
LAYERS = [
    ["trustax.types", "trustax.errors", "trustax.settings", "trustax.ops", "trustax.networks"],
    ["trustax.algorithms"],
    ["trustax.envs"],
    ["trustax.run", "trustax.storage.atomic", "trustax.storage.reading"],
    ["trustax.agent", "trustax.evaluation", "trustax.runtime", "trustax.storage", "trustax.plotting", "trustax.cli"],
    ["trustax.training"],
    ["trustax.sweeps"],
    ["trustax.paper"],
]
"""From the bottom up, by prefix. A module imports from its own layer and those below it."""
ABOVE_ALL = [
    *("trustax", "trustax.__main__", "trustax.cli.main", "trustax.cli.commands", "trustax.cli.sweep"),
    *("trustax.cli.tune", "trustax.cli.settings_file", "trustax.cli.methods", "trustax.cli.training"),
]
"""The public interface and the command line, which know everything."""
EXCEPTIONS = {
    ("trustax.envs.vectorize", "trustax.runtime.compilation"),  # to compile its reset
    ("trustax.envs.envpool", "trustax.runtime.cores"),  # for its number of threads
    ("trustax.storage.manifest", "trustax"),  # the version
    ("trustax.runtime.distributed", "trustax"),  # the version
}
PURE = [*LAYERS[0], *LAYERS[1]]
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


def belongs(module: str, prefixes: list[str]) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


def layer_of(module: str) -> int:
    """The lowest layer that names the module or a package it is in; the longest name decides."""
    named = [
        (len(prefix), number) for number, layer in enumerate(LAYERS) for prefix in layer if belongs(module, [prefix])
    ]
    return max(named)[1]


@pytest.mark.parametrize("module", sorted(name for name in PLACES if name not in ABOVE_ALL))
def test_a_module_imports_only_from_its_layer_and_below(module: str) -> None:
    used = {name for name in of_the_house(module) if (module, name) not in EXCEPTIONS}
    assert not [name for name in used if name in ABOVE_ALL or layer_of(name) > layer_of(module)]


@pytest.mark.parametrize("module", sorted(name for name in PLACES if belongs(name, PURE)))
def test_mathematics_and_algorithms_import_no_files_clocks_or_loggers(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(module)}
    assert not outside & {"os", "pathlib", "time", "datetime", "logging", "random", "gymnasium", "envpool", "rich"}


def test_every_module_with_shapes_is_checked_as_the_tests_run(pytestconfig: pytest.Config) -> None:
    checked = pytestconfig.getoption("--jaxtyping-packages").split(",")
    assert [name for name in PLACES if "jaxtyping" in imports(name) and not belongs(name, checked)] == []


def test_the_root_has_few_files_and_folders() -> None:
    children = [path for path in ROOT.iterdir() if not path.name.startswith(("__pycache__", "."))]
    assert len([path for path in children if path.is_file()]) <= 10
    assert len([path for path in children if path.is_dir()]) <= 11


def test_the_reader_of_imports_reads_all_forms() -> None:
    assert {"trustax.ops.distributions", "trustax.types", "jax"} <= set(imports("trustax.networks.layers"))
    assert "trustax.storage.pytree" in of_the_house("trustax.agent")
    assert "trustax.algorithms.mcpo.mcpo" in of_the_house("trustax.algorithms")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(FILES[path]))
def test_a_file_has_a_descriptive_name(path: Path) -> None:
    assert not {"util", "utils", "common", "core", "helper", "helpers", "misc"} & {path.stem, path.parent.name}


@pytest.mark.parametrize("module", sorted(PLACES))
def test_nothing_is_unpickled_or_evaluated(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & DANGEROUS
    calls = [node.func for node in ast.walk(ast.parse(PLACES[module].read_text())) if isinstance(node, ast.Call)]
    assert not {call.id for call in calls if isinstance(call, ast.Name)} & {"eval", "exec", "compile", "__import__"}
