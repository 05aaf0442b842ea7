"""`wharf snapshot`: writes everything that a decision depends on to a file, completely or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from wharfinger.cli import live_cluster, options, streams
from wharfinger.errors import UsageError
from wharfinger.language.files import replacing
from wharfinger.language.report.wording import count
from wharfinger.model.reading import snapshot_file

if TYPE_CHECKING:
    from wharfinger.kube.wire import Captured

STDOUT = "-"
_GZIP_LEVEL = 6


@contextlib.contextmanager
def atomic_file(path: str) -> Iterator[BinaryIO]:
    """A stream into a new file, readable by its owner only, which replaces the file when the context ends without an exception.

    `-` is standard output; a pipe or a device is written to as it is. Raises UsageError, as early as possible, if it cannot be written.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))  # the target of a link, so that the link stays
    with _as_usage_errors(path):
        if target.is_dir():
            raise UsageError(f"{path}: this is a folder; give the name of a file")
        with target.open("wb") if target.exists() and not target.is_file() else replacing(target, durable=True) as stream:
            yield stream


@contextlib.contextmanager
def _as_usage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def write(stream: BinaryIO, pieces: Iterable[bytes], *, compressed: bool) -> None:
    """Write the pieces; the same pieces give the same bytes, also compressed."""
    if not compressed:
        stream.writelines(pieces)
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0) as packed:
        cast("BinaryIO", packed).writelines(pieces)


def wharf_snapshot(  # noqa: PLR0913, PLR0917 — one parameter per flag
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The output file: compressed if the name ends in .gz; - for standard output."),
    ],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    config: options.Servers = None,
    prometheus: options.PrometheusUrl = None,
) -> int:
    """Save what scheduling reads of a cluster to a file, for --snapshot of other commands. Writes nothing to the cluster.

    The samples of metrics that the policies of --policy or --config read are saved too.

    $ wharf snapshot -o cluster.json.gz
    """
    with live_cluster.signals_as_interrupt(), atomic_file(output) as stream:
        found = live_cluster.capture(kubeconfig, context)
        measured = live_cluster.measured(found, policy, config, prometheus, kubeconfig, context)
        pieces = snapshot_file.document(found.items, found.word, measured.samples)
        write(stream, pieces, compressed=output.endswith(".gz"))
    streams.warn([*found.word.not_read, *measured.not_read])
    streams.print_stderr(_summary(found, output))
    return 0


def _summary(found: Captured, output: str) -> str:
    nodes, pods = found.counts.get("Node", 0), found.counts.get("Pod", 0)
    others = sum(found.counts.values()) - nodes - pods
    where = "standard output" if output == STDOUT else output
    parts = f"{count(nodes, 'node')}, {count(pods, 'pod')} and {count(others, 'other object')}"
    return f"{parts} as of {found.word} written to {where}"
