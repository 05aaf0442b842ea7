"""The commands of README.md and docs/ that need a cluster are run on one, and print the output of the page."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import custom
from tests.cluster.process import WharfProcess
from tests.docs import pages
from tests.testbed import build

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "deploy" / "README.md", *pages.guides())
    if any(block.needs_cluster for block in pages.blocks(page))
]
ZONES = ("z1", "z2", "z3")


def write_files(page, folder):
    for shown in ("policies", "deploy"):
        (folder / shown).symlink_to(ROOT / shown)
    for block in pages.blocks(page):
        if block.file and block.language in {"policy", "yaml", "json"}:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def shell(control_plane, command, folder, url=""):
    paths = (Path(sys.executable).parent, *(build.program(name).parent for name in ("kubectl", "helm")), os.environ["PATH"])
    own = {"PATH": ":".join(map(str, paths)), "KUBECONFIG": str(control_plane.kubeconfig), "NO_COLOR": "1", "WHARF_URL": url}
    environment = {**os.environ, **own}
    ran = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return ran.stdout + ran.stderr


@pytest.fixture
def emptied(control_plane):
    """The control plane, from which goes what a page may leave behind besides pods."""
    yield control_plane
    custom.uninstall(control_plane)
    control_plane.kubectl("delete", "configmap", "policies", "--ignore-not-found")


@contextlib.contextmanager
def running(control_plane, command, folder):
    """`wharf run … &` of a page, ready, until the end of the context."""
    program, verb, *flags = command.removesuffix(" &").split()
    assert (program, verb) == ("wharf", "run")
    files = [folder / flag if (folder / flag).exists() else flag for flag in flags]
    with WharfProcess(control_plane, *files, name="wharf-of-a-page") as wharf:
        yield wharf.url
        assert wharf.terminate() == 0, wharf.log


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_only_what_happens_on_a_cluster(control_plane, emptied, nodes, tmp_path, page):
    nodes(9, each=lambda i: {"labels": {"topology.kubernetes.io/zone": ZONES[i % len(ZONES)]}})
    write_files(page, tmp_path)

    url = ""
    with contextlib.ExitStack() as background:
        for step in (step for block in pages.blocks(page) if block.needs_cluster for step in pages.commands(block)):
            if step.command.endswith(" &"):
                url = background.enter_context(running(control_plane, step.command, tmp_path))
                continue
            printed = shell(control_plane, step.command, tmp_path, url)
            assert pages.pattern(step.output).match(printed + "\n"), (
                f"line {step.line}: $ {step.command}\nprinted\n{printed}\nexpected\n{step.output}"
            )
