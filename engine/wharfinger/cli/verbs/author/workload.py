"""`wharf workload`: the typical pods of a cluster or trace, as a file for policies to import."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from wharfinger.cli import options, streams
from wharfinger.errors import UsageError
from wharfinger.language.check.workloads import MAX_REQUESTS
from wharfinger.language.parse import grammar
from wharfinger.simulate import typical_pods
from wharfinger.simulate.cluster import load_cluster


def command(
    snapshot: Annotated[
        list[str],
        typer.Option(
            "--snapshot",
            help="A snapshot, manifests or a folder, openb:default or openb:gpuspec33, or CSV files of that trace.",
            autocompletion=options.offered_snapshots,
        ),
    ],
    name: Annotated[str, typer.Option("--name", help="The name of the workload.")] = "typical",
    share: Annotated[str, typer.Option("--share", help="The share of the pods that the requests stand for.", metavar="PERCENT")] = "95%",
    memory: Annotated[bool, typer.Option("--memory", help="Also tell pods apart by the memory that they ask for.")] = False,
) -> int:
    """Write what the pods of a cluster or trace typically ask for, for `fragmentation`; policies import the file."""
    fraction = _fraction(share)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in grammar.terminals().reserved:
        raise UsageError(f"--name {name}: not a name; names are made of letters, digits and _, and are no reserved words")
    cluster = load_cluster(snapshot)
    found = typical_pods.shapes(map(cluster.objects.view, cluster.objects.pods), cluster.state.snapshot(), memory=memory)
    if not found:
        raise UsageError(f"{', '.join(snapshot)}: no pods, so nothing is typical of them")
    requests = typical_pods.typical(found, fraction)
    if len(requests) > MAX_REQUESTS:
        instead = "take a smaller --share" + (", or leave --memory out" if memory else "")
        raise UsageError(
            f"{share} of the pods are {len(requests):,} different requests, and a workload has at most {MAX_REQUESTS}: {instead}"
        )
    of_all = f"{len(requests)} of {len(found):,} different requests are {share} of them"
    streams.out(f"# {found.total():,} pods of {', '.join(snapshot)}; {of_all}\n")
    streams.out(typical_pods.written(name, requests))
    return 0


def _fraction(text: str) -> float:
    digits = text.strip().removesuffix("%")
    try:
        found = float(digits) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise UsageError(f"--share {text}: not a share; write one above 0% and up to 100%")
    return found
