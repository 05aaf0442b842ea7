"""The extension for VS Code, made once for the tests of this folder."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools import needs
from tests.unit.cli.conftest import wharf

__all__ = ["extension", "wharf"]

EXTENSION = Path(__file__).parents[3] / "editors" / "vscode"
NOT_SOURCES = shutil.ignore_patterns("node_modules", "dist", "*.vsix")


@pytest.fixture(scope="session")
def extension(tmp_path_factory):
    """The folder of the extension for VS Code with what it needs from npm, and its package."""
    npm = needs("npm")
    folder = tmp_path_factory.mktemp("editors") / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=NOT_SOURCES)
    for command in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "package"]):
        ran = subprocess.run([npm, *command], cwd=folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder
