"""The parts list of the wheel and the image."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "deploy" / "sbom.py"


def loaded():
    spec = importlib.util.spec_from_file_location("sbom", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sbom = loaded()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sbom")
    subprocess.run([sys.executable, SCRIPT, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def document(made):
    return json.loads((made / "wharfinger.cdx.json").read_text())


def test_the_sbom_is_valid_cyclonedx(made):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str((made / "wharfinger.cdx.json").read_text()) is None


def test_the_sbom_has_the_packages_of_a_running_wharfinger_and_no_tools(document):
    packages = {sbom.normal(part["name"]) for part in document["components"] if part.get("purl", "").startswith("pkg:pypi")}

    assert packages == set(filter(None, sbom.requirements_of.blocks(sbom.runtime())))
    assert {"numpy", "lark"} <= packages
    assert not {"pytest", "mkdocs", "z3-solver"} & packages


def test_the_sbom_has_the_javascript_of_the_playground_and_not_its_builder(document):
    names = {sbom.full_name(part) for part in document["components"]}

    assert {"@codemirror/view", "@codemirror/state"} <= names
    assert "esbuild" not in names


def test_every_part_has_a_version_and_a_licence_and_every_dependency_is_a_part(made, document):
    references = {part["bom-ref"] for part in document["components"]} | {document["metadata"]["component"]["bom-ref"]}

    assert [part["name"] for part in document["components"] if not part.get("version") or not sbom.licences_of(part)] == []
    assert {ref for edge in document["dependencies"] for ref in (edge["ref"], *edge.get("dependsOn", []))} <= references
    assert "| numpy |" in (made / "LICENCES.md").read_text()


def test_identifiers_of_licences_win_over_classifiers():
    choices = [{"license": {"id": "MIT"}}, {"license": {"name": "License :: OSI Approved :: MIT License"}}]

    assert sbom.licences_of({"licenses": choices}) == ["MIT"]
    assert sbom.licences_of({"licenses": choices[1:]}) == ["MIT License"]
