"""The package declares what it imports, and pins what it declares: nothing works only because another package depends on it too."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GROUPS = {"always": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
PINNED = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported():
    """The top-level modules of other projects, each with a file that imports it."""
    found = {}
    for path in sorted((ROOT / "engine").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {name.partition(".")[0]: path for name in names}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | {"wharfinger"}}


def test_imported_packages_are_declared():
    given_by = packages_distributions()
    declared = {normal(Requirement(each).name) for name, group in GROUPS.items() if name != "dev" for each in group}

    missing = {name: path.name for name, path in imported().items() if not declared & set(map(normal, given_by[name]))}
    assert not missing


@pytest.mark.parametrize("group", GROUPS)
def test_declared_packages_are_pinned(group):
    for requirement in map(Requirement, GROUPS[group]):
        if requirement.name != PROJECT["name"]:
            assert requirement.specifier.contains(PINNED[normal(requirement.name)]), requirement
