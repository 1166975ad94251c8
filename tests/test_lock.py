"""The lock file has an exact version of everything that the development environment asks for, and nothing else."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()[1:]
LOCKED = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
DIRECT = [*PROJECT["dependencies"], *(one for group in PROJECT["optional-dependencies"].values() for one in group)]


@pytest.mark.parametrize("line", DIRECT)
def test_the_lock_file_has_a_version_that_the_project_allows(line: str) -> None:
    requirement = Requirement(line)
    on_its_python = requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11"})
    if requirement.name != "trustax" and on_its_python:
        assert requirement.specifier.contains(LOCKED[canonicalize_name(requirement.name)]), "run make lock"


def test_the_lock_file_has_exact_versions_and_no_addresses() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[a-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line)] == []
