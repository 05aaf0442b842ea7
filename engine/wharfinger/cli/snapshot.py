"""`wharf snapshot`: everything that a decision depends on, as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli import live_cluster, live_signals, options, snapshot_file, streams

if TYPE_CHECKING:
    from wharfinger.kube.capture import Captured
from wharfinger.language.counts import count
from wharfinger.model import capture


def command(  # noqa: PLR0913, PLR0917 — the options of a verb
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to: compressed if the name ends in .gz, - for standard output.")
    ],
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    config: options.Servers = None,
    prometheus: options.PrometheusUrl = None,
) -> int:
    """Capture a cluster for `wharf dry-run --snapshot FILE`: what scheduling reads of it, and nothing else. Changes nothing anywhere.

    The samples of metrics that the policies of --policy or --config read are captured too.
    """
    with live_cluster.ended_tidily(), snapshot_file.whole(output) as stream:
        found = live_cluster.capture(kubeconfig, context)
        measured = live_signals.captured(found, policy, config, prometheus, kubeconfig, context)
        pieces = capture.document(found.items, found.word, measured.samples)
        snapshot_file.write(stream, pieces, compressed=output.endswith(".gz"))
    for sentence in (*found.word.not_read, *measured.not_read):
        streams.complain(f"warning: {sentence}")
    streams.complain(_summary(found, output))
    return 0


def _summary(found: Captured, output: str) -> str:
    nodes, pods = found.counts.get("Node", 0), found.counts.get("Pod", 0)
    others = sum(found.counts.values()) - nodes - pods
    where = "standard output" if output == snapshot_file.STDOUT else output
    parts = f"{count(nodes, 'node')}, {count(pods, 'pod')} and {count(others, 'other object')}"
    return f"{parts} as of {found.word} written to {where}"
