"""`requirements_of.py [PACKAGE…]` prints the part of requirements.txt that these packages need; by default, those of a running Wharfinger.

requirements.txt names below each package those that require it (`# via`). Required packages, direct or indirect, keep their versions and
hashes. So an image contains nothing that only tests or builds use.
"""  # noqa: INP001 — a script that is run by its path

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def blocks(text: str) -> Mapping[str, str]:
    """The lines of each package, by its name."""
    parts = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {found[0]: part for part in parts if (found := NAME.match(part))}


def wanted_by(block: str) -> Iterator[str]:
    """Who wants a package."""
    _, _, told = block.partition("# via")
    yield from (found[0] for line in told.splitlines() if (found := NAME.search(line)))


def closure(text: str, wanted: set[str]) -> str:
    """The blocks that the wanted packages and what they want make up. KeyError for one that is not there."""
    found = blocks(text)
    needed = {name for name in wanted if found[name]}
    while more := {name for name, block in found.items() if name not in needed and needed & set(wanted_by(block))}:
        needed |= more
    return "".join(block for name, block in found.items() if name in needed)


def dependencies(pyproject: str) -> set[str]:
    """The names of a project's dependencies, as requirements.txt has them."""
    names = (NAME.match(dependency) for dependency in tomllib.loads(pyproject)["project"]["dependencies"])
    return {name[0].lower().replace("_", "-") for name in names if name}


if __name__ == "__main__":
    named = set(sys.argv[1:]) or dependencies((ROOT / "pyproject.toml").read_text("utf-8"))
    sys.stdout.write(closure((ROOT / "requirements.txt").read_text("utf-8"), named))
