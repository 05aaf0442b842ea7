"""Facts about the installed package: `wharf version`, and the JSON Schemas of files and answers by `wharf schema`."""

from __future__ import annotations

import sys
from importlib import resources
from typing import Annotated

import typer

import wharfinger
from wharfinger.cli import streams
from wharfinger.errors import UsageError
from wharfinger.language.report import wording

VERSION = "v1"
"""Of the schemas."""
_FOLDER = resources.files("wharfinger") / "schemas" / VERSION


def wharf_version() -> int:
    """Print the version.

    $ wharf version
    """
    sys.stdout.write(f"wharfinger {wharfinger.__version__}\n")
    return 0


def names() -> list[str]:
    """The names of the schemas."""
    return sorted(each.name.removesuffix(".json") for each in _FOLDER.iterdir() if each.name.endswith(".json"))


def _complete_schemas(incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete)]


def wharf_schema(
    name: Annotated[
        str | None, typer.Argument(help="The name of the schema; without it, all names are listed.", autocompletion=_complete_schemas)
    ] = None,
) -> int:
    """Print the JSON Schema of the settings, of snapshots, or of the JSON output of a command.

    $ wharf schema dry-run
    """
    known = names()
    if name is None:
        streams.out("".join(f"{each}\n" for each in known))
        return 0
    if name not in known:
        near = wording.closest(name, known)
        raise UsageError(f"there is no schema {name}; " + (f"did you mean {near}?" if near else f"there are {', '.join(known)}"))
    streams.out((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return 0
