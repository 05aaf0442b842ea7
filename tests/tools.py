"""Programs that tests run in addition to Python: `needs("zsh")` in a test or fixture is the path of one.

If a program is missing, the test is skipped with a reason; with CI=true it fails. `python -m tests.tools` prints the Debian packages of
those that are missing here, one a line.
"""

import os
import shutil
import sys
from typing import NamedTuple, NoReturn

import pytest


class Tool(NamedTuple):
    """A program."""

    names: tuple[str, ...]
    """What it may be called; the first that is installed is run."""
    packages: tuple[str, ...]
    """The packages of Debian that have it, and what it takes to be used."""


TOOLS = {
    "bash": Tool(("bash",), ("bash",)),
    "chromium": Tool(("chromium", "chromium-browser", "google-chrome"), ("chromium", "fonts-dejavu-core")),
    "fish": Tool(("fish",), ("fish",)),
    "npm": Tool(("npm",), ("npm",)),
    "nvim": Tool(("nvim",), ("neovim",)),
    "openssl": Tool(("openssl",), ("openssl",)),
    "vim": Tool(("vim",), ("vim",)),
    "zsh": Tool(("zsh",), ("zsh",)),
}


def found(tool: str) -> str | None:
    """The path of the program; None if it is not installed."""
    return next(filter(None, map(shutil.which, TOOLS[tool].names)), None)


def needs(tool: str) -> str:
    """The path of the program. Without it, the calling test is skipped; with CI=true it fails."""
    __tracebackhide__ = True  # a summary names the line of the test
    return found(tool) or unable(f"{tool} is not installed (Debian: apt-get install {' '.join(TOOLS[tool].packages)})")


def unable(reason: str) -> NoReturn:
    """Skips the calling test, which cannot be run here; with CI=true it fails."""
    __tracebackhide__ = True
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason)
    pytest.skip(reason)


if __name__ == "__main__":
    for name, tool in TOOLS.items():
        sys.stdout.writelines(f"{package}\n" for package in tool.packages if found(name) is None)
