"""The wheel: what it holds, and that the source distribution makes the same one."""

import hashlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from wharfinger import __version__

ROOT = Path(__file__).parents[3]
PLACES = {"engine/wharfinger/": "wharfinger/", "grammar/": "wharfinger/grammar/", "policies/": "wharfinger/shipped_policies/"}
"""The folders of the wheel that have the files of these folders."""


def built(source, folder, *kinds):
    """The files that the build of a source folder makes."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", folder, source]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the wheel and the source distribution."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "315532800")
        yield built(ROOT, tmp_path_factory.mktemp("made"), "--wheel", "--sdist")


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(made):
    [wheel] = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = {name.partition(".dist-info/")[2] for name in archive.namelist() if "/licenses/" in name}

    listed = subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    wanted = {place + name.removeprefix(folder) for name in listed for folder, place in PLACES.items() if name.startswith(folder)}
    assert held == wanted
    assert licences == {"licenses/LICENSE", "licenses/engine/wharfinger/web/playground/static/editor.licenses.txt"}


@pytest.mark.slow
def test_the_source_distribution_makes_the_same_wheel(made, tmp_path):
    [source] = made.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [again] = built(tmp_path / source.name.removesuffix(".tar.gz"), tmp_path / "again", "--wheel").glob("*.whl")

    [wheel] = made.glob("*.whl")
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text("utf-8"))
    plugin = yaml.safe_load((ROOT / "deploy" / "krew" / "wharf.yaml").read_text("utf-8"))["spec"]
    [image] = yaml.safe_load((ROOT / "deploy" / "base" / "kustomization.yaml").read_text("utf-8"))["images"]

    assert {chart["version"], chart["appVersion"], plugin["version"].removeprefix("v"), image["newTag"], __version__} == {project}
    assert f"kubectl-wharf-{project}.tar.gz" in plugin["platforms"][0]["uri"]
