"""`kubectl wharf`: by krew with what `make dist` makes, and by the programs that pip installs, with the real kubectl and krew."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster import chart
from tests.cluster.programs import built
from wharfinger import __version__

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
SYSTEM = "/usr/bin:/bin"


def run(*command, **environment):
    return subprocess.run(
        list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The files that `make dist` makes."""
    folder = tmp_path_factory.mktemp("dist")
    ran = run(sys.executable, ROOT / "deploy" / "dist.py", folder)
    assert (ran.returncode, sorted(ran.stdout.split())) == (0, sorted(map(str, folder.iterdir()))), ran.stderr
    return folder


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory):
    """The folder of programs of a krew that has installed the plugin."""
    home = tmp_path_factory.mktemp("krew")
    path = f"{built('kubectl').parent}:{SYSTEM}"
    archive = made / f"kubectl-wharf-{__version__}.tar.gz"
    ran = run(built("krew"), "install", f"--manifest={made / 'wharf.yaml'}", f"--archive={archive}", KREW_ROOT=str(home), PATH=path)
    assert ran.returncode == 0, ran.stderr
    return home / "bin"


def test_krew_installs_it_and_it_runs_the_wharf_of_the_path(installed):
    ran = run("kubectl", "wharf", "version", PATH=f"{installed}:{built('kubectl').parent}:{PROGRAMS}:{SYSTEM}")

    assert (ran.stdout, ran.returncode) == (f"wharfinger {__version__}\n", 0), ran.stderr


def test_without_anything_to_run_it_says_what_to_install(installed):
    ran = run("kubectl", "wharf", "version", PATH=f"{installed}:{built('kubectl').parent}:{SYSTEM}")

    assert ran.returncode == 2
    assert "needs wharf, uv or pipx" in ran.stderr


def test_the_installed_package_is_a_kubectl_plugin_with_completion():
    path = f"{PROGRAMS}:{built('kubectl').parent}:{SYSTEM}"

    assert run("kubectl", "wharf", "version", PATH=path).stdout == f"wharfinger {__version__}\n"
    offered = run("kubectl", "__complete", "wharf", "d", PATH=path).stdout.split()
    assert {"demo", "diff", "drain", "dry-run", ":4"} <= set(offered)


def test_the_manifest_names_the_version_of_the_project(made):
    spec = yaml.safe_load((made / "wharf.yaml").read_text())["spec"]

    assert spec["version"] == f"v{__version__}"
    assert spec["platforms"][0]["uri"].endswith(f"/kubectl-wharf-{__version__}.tar.gz")


def test_the_same_sources_give_the_same_bytes(made, tmp_path):
    run(sys.executable, ROOT / "deploy" / "dist.py", tmp_path)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {path.name: path.read_bytes() for path in made.iterdir()}


def test_the_chart_is_taken_by_helm(made, tmp_path):
    archive = made / f"wharfinger-{__version__}.tgz"

    assert "kind: Deployment" in chart.helm("template", archive, "--kube-version", chart.KUBERNETES, *chart.values(), folder=tmp_path)
