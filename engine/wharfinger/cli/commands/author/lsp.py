"""`wharf lsp`: the language server for editors, over standard input and output."""

from __future__ import annotations

import gc
import logging
import os
import sys
from typing import Annotated, BinaryIO, cast

import typer

from wharfinger.cli import live_cluster, options, streams
from wharfinger.errors import UsageError, missing_extra
from wharfinger.language.report import wording
from wharfinger.simulate.cluster import with_nodes

GC_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the garbage collector: a check makes some ten thousand objects, and few of them in circles."""


def wharf_lsp(
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Read the cluster that the kubeconfig names, once.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> int:
    """Serve the Language Server Protocol to an editor, over standard input and output.

    With --snapshot or --live, it also knows the labels and resources of a cluster, and how many nodes pass a filter.

    $ wharf lsp --snapshot cluster.json.gz
    """
    try:
        from wharfinger.authoring.known_cluster import KnownCluster  # noqa: PLC0415 — as above
        from wharfinger.authoring.protocol import server  # noqa: PLC0415 — needs an extra, and half a second
    except ModuleNotFoundError as error:
        if error.name not in {"pygls", "lsprotocol"}:
            raise
        raise missing_extra("`wharf lsp` needs pygls", "lsp") from error
    if sys.stdin.isatty():
        raise UsageError("wharf lsp is started by an editor, which writes to its standard input; see docs/writing/authoring.md")
    cluster = None
    if snapshot or live or kubeconfig or context:
        found = live_cluster.cluster_of(snapshot or [], kubeconfig, context, live=live, skip_invalid=True)
        name = ", ".join(map(os.path.basename, snapshot)) if snapshot else "the live cluster"
        streams.warn(found.skipped)
        cluster = KnownCluster(name, with_nodes(found, name))
        streams.print_stderr(f"wharf lsp: {wording.count(cluster.snapshot.n_nodes, 'node')} of {cluster.name}")
    logs = logging.getLogger("pygls")
    logs.addHandler(server.StderrHandler(tracebacks=bool(os.environ.get(streams.TRACEBACK))))
    logs.propagate = False
    gc.freeze()  # loaded objects stay; otherwise each full collection would traverse them while the user types
    gc.set_threshold(*GC_THRESHOLDS)
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as reader, os.fdopen(os.dup(sys.stdout.fileno()), "wb") as writer:
        held = cast("BinaryIO", server.MessageReader(reader))  # pygls calls no other method of it
        server.server(cluster).start_io(held, writer)  # which closes its argument
    return 0
