"""Command-line options that several verbs share, and the shell completion of their values.

The shell waits for completions, so only small files are read. A file that cannot be read offers nothing: the command
itself reports why.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.errors import UsageError, WharfingerError

if TYPE_CHECKING:
    from wharfinger.model.reading.files import Objects

MOST_BYTES = 16 << 20
"""Snapshots of up to this size are read; that takes a fraction of a second."""


def offered_params(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
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


def offered_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """The nodes of the snapshot."""
    return sorted(node.metadata.name for found in _read(ctx) for node in found.nodes if node.metadata.name.startswith(incomplete))


def offered_pods(ctx: typer.Context, incomplete: str) -> list[str]:
    """The pods of the snapshot as `namespace/name`."""
    keys = {f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}" for found in _read(ctx) for pod in found.pods}
    return sorted(key for key in keys if key.startswith(incomplete))


def _read(ctx: typer.Context) -> Iterator[Objects]:
    """The objects in the files of `--snapshot`, of small files only."""
    from wharfinger.model.reading import files  # noqa: PLC0415 — as above

    for path in ctx.params.get("snapshot") or ():
        try:
            if Path(path).is_file() and Path(path).stat().st_size <= MOST_BYTES:
                yield files.read_objects([path], skip_invalid=True)
        except (WharfingerError, OSError):
            continue


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
        autocompletion=offered_params,
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
    typer.Option(
        "--kubeconfig", metavar="FILE", help="The kubeconfig file; default: $KUBECONFIG, ~/.kube/config, the pod's service account."
    ),
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


def list_options(command: Any) -> frozenset[str]:
    """Options of a verb that take every word up to the next option, as a shell expands `--policy policies/*.policy`.

    These are repeatable options for paths, of verbs that take no list of words themselves.
    """
    if any(parameter.nargs == -1 for parameter in command.params):
        return frozenset()
    lists = (each for each in command.params if getattr(each, "multiple", False) and each.metavar in {"FILE", "PATH"})
    return frozenset(name for each in lists for name in each.opts)


def repeated(words: Sequence[str], lists: Container[str]) -> list[str]:
    """The words with `--policy a b` as `--policy a --policy b`, for the options in `lists`: the form that typer takes."""
    found: list[str] = []
    option: str | None = None
    free = 0  # words since the option; the first one is the option's own
    for word in words:
        if word.startswith("-") and word != "-":
            option, free = (word if word in lists else None), 0
        else:
            free += 1
            if option is not None and free > 1:
                found.append(option)
        found.append(word)
    return found
