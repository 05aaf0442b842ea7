"""The build file of the image, as far as it can be checked without building it, and which packages go into it."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "deploy" / "Containerfile").read_text("utf-8")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]
LOCKED = (ROOT / "requirements.txt").read_text("utf-8")


def all_of(instruction):
    return [rest for name, rest in LINES if name == instruction]


@pytest.fixture(scope="module")
def requirements_of():
    spec = importlib.util.spec_from_file_location("requirements_of", ROOT / "deploy" / "requirements_of.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_base_is_named_by_digest_and_used_throughout():
    assert re.fullmatch(r"BASE=\S+@sha256:[0-9a-f]{64}", all_of("ARG")[0])
    assert all_of("FROM") == ["${BASE} AS build", "${BASE}"]


def test_packages_are_held_to_their_hashes():
    installs = [command for command in all_of("RUN") if " pip install " in command]

    assert len(installs) == 3
    assert all("--require-hashes --no-deps" in command or "--no-index --no-deps dist/" in command for command in installs)


def test_copied_files_exist():
    for copied in (rest.split() for rest in all_of("COPY") if not rest.startswith("--from")):
        assert all((ROOT / source).exists() for source in copied[:-1])


def test_the_user_and_the_ports_are_those_of_the_manifests():
    pod = yaml.safe_load((ROOT / "deploy" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    user = pod["securityContext"]

    assert all_of("USER") == [f"{user['runAsUser']}:{user['runAsGroup']}"]
    assert str(pod["containers"][0]["ports"][0]["containerPort"]) in all_of("EXPOSE")[0].split()
    assert all_of("ENTRYPOINT") == ['["wharf"]']
    assert pod["containers"][0]["args"][0] == "run"


def test_a_running_wharfinger_gets_all_it_needs_and_nothing_of_the_tools(requirements_of):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = requirements_of.closure(LOCKED, requirements_of.dependencies((ROOT / "pyproject.toml").read_text()))
    there = set(requirements_of.blocks(text))

    assert {Requirement(each).name.lower() for each in project["dependencies"]} <= there
    assert not {Requirement(each).name.lower() for each in project["optional-dependencies"]["dev"]} & there
    for name, block in requirements_of.blocks(text).items():
        assert block in LOCKED
        assert re.search(rf"^{re.escape(name)}==\S+ \\\n    --hash=sha256:", block)


def test_packages_in_the_image_need_no_others(requirements_of):
    """Of the packages in the image, all requirements that hold on this machine are in it as well."""
    from importlib.metadata import requires

    there = set(
        requirements_of.blocks(requirements_of.closure(LOCKED, requirements_of.dependencies((ROOT / "pyproject.toml").read_text())))
    )
    for name in there:
        for each in map(Requirement, requires(name) or ()):
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                assert each.name.lower().replace("_", "-") in there, f"{name} needs {each}"


def test_a_package_that_is_not_locked_is_refused(requirements_of):
    with pytest.raises(KeyError, match="left-pad"):
        requirements_of.closure(LOCKED, {"left-pad"})
