"""`wharf check`: what is wrong with policies."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from wharfinger.builtins import CATALOGUE
from wharfinger.cli import options, streams
from wharfinger.language import load, render


class Format(Enum):
    """How findings are printed."""

    HUMAN = "human"
    PLAIN = "plain"
    JSON = "json"


def command(
    paths: options.Paths = None,
    output: Annotated[Format, typer.Option("--format", help="How findings are printed.")] = Format.HUMAN,
) -> int:
    """Print what is wrong with policies: exit code 0 when nothing is, 1 when something is."""
    _, diagnostics = load.load_policies(options.existing(paths), CATALOGUE)
    streams.out(render.render(diagnostics, format=output.value, color=streams.colors(sys.stdout)))
    return 1 if len(diagnostics) else 0
