"""`wharf install`: what a cluster needs before Wharfinger runs in it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wharfinger.crd import definition
from wharfinger.errors import UsageError


def wharf_install(
    printed: Annotated[bool, typer.Option("--print", help="Print the manifests for `kubectl apply -f -`.")] = False,
) -> int:
    """Print the CustomResourceDefinitions of SchedulingPolicy, PlacementPreview and PolicyApp.

    Apply them before anything that uses them, then wait until they are established: `kubectl wait
    --for jsonpath='{.status.conditions[?(@.type=="Established")].status}'=True crd -l app.kubernetes.io/managed-by=wharfinger`.

    $ wharf install --print | kubectl apply -f -
    """
    if not printed:
        raise UsageError("nothing is written to a cluster from here; --print prints the manifests for `kubectl apply -f -`")
    sys.stdout.write("---\n".join(definition.files().values()))
    return 0
