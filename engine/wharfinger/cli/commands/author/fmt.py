"""`wharf fmt`: policies in their canonical layout."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli import options, streams
from wharfinger.errors import UsageError, printable
from wharfinger.language import files, load
from wharfinger.language import format as formatter
from wharfinger.language.report import render
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.user_input import standard_input


def wharf_fmt(
    paths: options.Paths = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; list the files that would change, and fail if there are any.")
    ] = False,
) -> int:
    """Rewrite policies in their canonical layout; `-` formats stdin to stdout.

    Exit code 1 if a file does not parse, or with --check if one would change.

    $ wharf fmt --check policies/
    """
    diagnostics = Diagnostics()
    changed = [name for name in load.policy_files(options.existing(paths)) if _format(name, diagnostics, check=check)]
    streams.print_stderr_text(render.render(diagnostics, color=streams.colors(sys.stderr)))
    return 1 if diagnostics.has_errors or (check and changed) else 0


def _format(name: str, diagnostics: Diagnostics, *, check: bool) -> bool:
    """True if the file differs from its canonical layout; it is rewritten, or listed when only checking."""
    source = _read(name, diagnostics)
    if source is None:
        return False
    formatted = formatter.format_source(source, diagnostics)
    if formatted is None:
        return False
    if name == load.STDIN and not check:
        streams.out(formatted)
    elif formatted != source.text:
        streams.out(f"{'would change' if check else 'changed'} {printable(source.name)}\n")
        if not check:
            _write(name, formatted)
    return formatted != source.text


def _read(name: str, diagnostics: Diagnostics) -> Source | None:
    if name == load.STDIN:
        return files.read_stream(standard_input(), "<stdin>", diagnostics)
    return files.read_source(name, diagnostics)


def _write(name: str, text: str) -> None:
    """Replace a file in one step, so that the policy is complete at any moment."""
    path = Path(name).resolve()
    try:
        path.open("r+b").close()  # a file that may not be written must not be replaced either
        with files.replacing(path, durable=False) as stream:
            stream.write(text.encode("utf-8"))
            os.fchmod(stream.fileno(), stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}") from error
