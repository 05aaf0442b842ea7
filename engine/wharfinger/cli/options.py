"""Parts of the command line that several verbs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli import completion
from wharfinger.errors import UsageError

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATHS]...", help="Files, folders (every *.policy below them) or - for stdin; without any, this folder."),
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", metavar="PATH", help="A policy file, or a folder of them; may be given several times."),
]
SNAPSHOT = typer.Option(
    "--snapshot",
    "-s",
    metavar="FILE",
    help="What `wharf snapshot` or `kubectl get nodes,pods -A -o json` gave: files, folders, - for stdin, .gz; or openb:default, a trace.",
)
Snapshots = Annotated[list[str], SNAPSHOT]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="Sets a param, as it would be written in the file: keep_free=20%.",
        autocompletion=completion.params,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A KubeSchedulerConfiguration: weights and arguments of the built-in plugins."),
]
SchedulerName = Annotated[
    str | None,
    typer.Option(
        "--scheduler-name", metavar="NAME", help="Which profile of --config; needed where it has several and no default-scheduler."
    ),
]


Kubeconfig = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="How to connect; default: $KUBECONFIG, ~/.kube/config, the pod's account."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Which context of the kubeconfig.")]


Servers = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="The WharfingerConfiguration that says which Prometheus servers and policies there are."),
]
PrometheusUrl = Annotated[
    str | None, typer.Option("--prometheus", metavar="URL", help="The Prometheus server that metrics mean which name none.")
]


def existing(paths: Sequence[str] | None) -> list[str]:
    """The paths, or the current folder when there are none; raises UsageError for one that does not exist."""
    chosen = list(paths or ["."])
    for path in chosen:
        if path != "-" and not Path(path).exists():
            raise UsageError(f"{path}: no such file or folder")
    return chosen


def params(assignments: Sequence[str] | None) -> Mapping[str, str]:
    """Param texts by name; raises UsageError for an assignment without `=` or one given twice."""
    found: dict[str, str] = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--param {assignment}: expected NAME=VALUE")
        if name.strip() in found:
            raise UsageError(f"--param {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found
