"""What the tabulator offers for values: params of the policies, nodes and pods of the snapshot that a command line names so far.

The shell waits for the answer, so nothing that takes long is read, and whatever cannot be read offers nothing: the command says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wharfinger.errors import WharfingerError

if TYPE_CHECKING:
    from wharfinger.model.read import Objects

MOST_BYTES = 16 << 20
"""Snapshots of up to this size are read; that takes a fraction of a second."""


def params(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """`NAME=` of each param of the policies, with the value that it has by default."""
    from wharfinger.builtins import CATALOGUE  # noqa: PLC0415 — a command line that is run, not completed, has no need of it
    from wharfinger.language import load  # noqa: PLC0415 — likewise

    paths = ctx.params.get("policy") or ()
    try:
        policies, _ = load.load_policies(paths, CATALOGUE)
    except (WharfingerError, OSError):
        return []
    declared = {f"{param.name}=": param.span.text for policy in policies if policy is not None for param in policy.params}
    return sorted((name, text) for name, text in declared.items() if name.startswith(incomplete))


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """The nodes of the snapshot."""
    return sorted(node.metadata.name for found in _read(ctx) for node in found.nodes if node.metadata.name.startswith(incomplete))


def pods(ctx: typer.Context, incomplete: str) -> list[str]:
    """The pods of the snapshot as `namespace/name`."""
    keys = {f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}" for found in _read(ctx) for pod in found.pods}
    return sorted(key for key in keys if key.startswith(incomplete))


def _read(ctx: typer.Context) -> Iterator[Objects]:
    """What the files of `--snapshot` hold, as far as they are small files."""
    from wharfinger.model import read  # noqa: PLC0415 — as above

    for path in ctx.params.get("snapshot") or ():
        try:
            if Path(path).is_file() and Path(path).stat().st_size <= MOST_BYTES:
                yield read.read_objects([path], skip_invalid=True)
        except (WharfingerError, OSError):
            continue
