"""Command-line options that several commands share, and the shell completion of their values.

The shell waits for completions, so only small files are read. A file that cannot be read offers nothing: the command
itself reports why.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import Struct

from wharfinger.cli import completion
from wharfinger.errors import UsageError, WharfingerError

if TYPE_CHECKING:
    from wharfinger.language.semantics import typed
    from wharfinger.model.reading.files import Objects

MAX_SNAPSHOT_BYTES = 16 << 20
"""Snapshots of up to this size are read; that takes a fraction of a second."""
MAX_FILES_SCANNED = 2_000
"""The largest number of folder entries that is searched for files to offer."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
SNAPSHOT_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")


def complete_policies(incomplete: str) -> list[str]:
    """The policy files here and in the folders below, and the folders that have some."""
    found = _files(incomplete, (".policy",))
    folders = {name.rpartition("/")[0] for name in found} - {"", "."}
    return completion.plain({*found, *folders})


def complete_snapshots(incomplete: str) -> list[str]:
    """The files here and in the folders below that may hold a snapshot, and the clusters that come with the package."""
    from wharfinger.simulate import cluster, examples, openb  # noqa: PLC0415 — a command line that is run, not completed, has no need of it

    known = [cluster.TRACE + variant.value for variant in openb.Variant] + [cluster.EXAMPLE + name for name in examples.SIZES]
    return completion.plain([*_files(incomplete, SNAPSHOT_SUFFIXES), *known])


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """The files with these suffixes in the current folder and below, or in the folder of the incomplete path; hidden files are left out."""
    above = incomplete[: incomplete.rfind("/") + 1]
    found: list[str] = []
    looked_at = 0
    for folder, folders, names in os.walk(above or "."):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        looked_at += len(folders) + len(names)
        below = os.path.relpath(folder, above or ".")
        place = above if below == "." else f"{above}{below}/"
        found += [place + name for name in names if name.endswith(suffixes) and not name.startswith(".")]
        if looked_at > MAX_FILES_SCANNED:
            break
    return found


def complete_params(ctx: typer.Context) -> list[tuple[str, str]]:
    """`NAME=` of each param of the policies, with its default as the description."""
    from wharfinger.language.semantics import describe  # noqa: PLC0415 — as above

    texts = {
        f"{param.name}=": "has no default" if param.default is None else describe.value_text(param.default, param.type.kind)
        for policy in _policies(ctx)
        for param in policy.params
    }
    return [(name, completion.description(text)) for name, text in sorted(texts.items())]


def complete_filters(ctx: typer.Context) -> list[str]:
    """The filters of the policies."""
    return completion.plain(rule.name for policy in _policies(ctx) for rule in policy.filters)


def complete_rules(ctx: typer.Context) -> list[str]:
    """The filters and scores of the policies."""
    policies = _policies(ctx)
    filters = [rule.name for policy in policies for rule in policy.filters]
    return completion.plain([*filters, *(rule.name for policy in policies for rule in policy.scores)])


def _policies(ctx: typer.Context) -> list[typed.Policy]:
    """The policies of the command line that have no errors; empty if a file cannot be read."""
    from wharfinger.builtins import CATALOGUE  # noqa: PLC0415 — a command line that is run, not completed, has no need of it
    from wharfinger.language import load  # noqa: PLC0415 — as above

    # While an option waits for its value, click keeps the words before it apart.
    given = ctx.params.get("policy") or [word for word in ctx.args if word.endswith(".policy")]
    try:
        policies, _ = load.load_policies([given] if isinstance(given, str) else given, CATALOGUE)
    except (WharfingerError, OSError):
        return []
    return [policy for policy in policies if policy is not None]


def complete_subjects(ctx: typer.Context) -> list[str]:
    """The subjects that `wharf explain` can explain: pods and groups of the snapshot, or the policies of `--policy`."""
    if str(ctx.params.get("kind")).rstrip("s") in {"group", "podgroup"}:
        return complete_groups(ctx)
    if str(ctx.params.get("kind")) not in {"policy", "policies"}:
        return complete_pods(ctx)
    return completion.plain(policy.name for policy in _policies(ctx))


def complete_namespaces(ctx: typer.Context) -> list[str]:
    """The namespaces of the pods of the snapshot."""
    return completion.plain(pod.metadata.namespace or "default" for found in _read(ctx) for pod in found.pods)


def complete_nodes(ctx: typer.Context) -> list[str]:
    """The nodes of the snapshot."""
    return completion.plain(node.metadata.name for found in _read(ctx) for node in found.nodes)


def complete_pods(ctx: typer.Context) -> list[str]:
    """The pods of the snapshot as `namespace/name`."""
    pods = (pod.metadata for found in _read(ctx) for pod in found.pods)
    return completion.plain(f"{pod.namespace or 'default'}/{pod.name}" for pod in pods)


def complete_groups(ctx: typer.Context) -> list[str]:
    """The groups that pods of the snapshot name, as `namespace/name`."""
    from wharfinger.groups.membership import named_group  # noqa: PLC0415 — as above
    from wharfinger.model.objects.pod_view import PodView  # noqa: PLC0415 — as above

    pods = (PodView(pod) for found in _read(ctx) for pod in found.pods)
    return completion.plain(f"{pod.namespace}/{name}" for pod in pods if (name := named_group(pod)))


def _read(ctx: typer.Context) -> Iterator[Objects]:
    """The objects in the files of `--snapshot`, of small files only."""
    from wharfinger.model.reading import files  # noqa: PLC0415 — as above

    for path in ctx.params.get("snapshot") or ():
        try:
            if Path(path).is_file() and Path(path).stat().st_size <= MAX_SNAPSHOT_BYTES:
                yield files.read_objects([path], skip_invalid=True)
        except (WharfingerError, OSError):
            continue


Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATHS",
        help="Policy files, folders (all *.policy files below them) or - for stdin; default: the current folder.",
        autocompletion=complete_policies,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="PATH",
        help="A policy file, or a folder of them; may be given several times.",
        autocompletion=complete_policies,
    ),
]
SNAPSHOT = typer.Option(
    "--snapshot",
    "-s",
    metavar="FILE",
    help="The output of `wharf snapshot` or `kubectl get nodes,pods -A -o json`: files, folders, - for stdin; or openb:default, a trace.",
    autocompletion=complete_snapshots,
)
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="Set a param, written as in the policy: keep_free=20%.",
        autocompletion=complete_params,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A KubeSchedulerConfiguration: weights and arguments of the built-in plugins."),
]
SchedulerName = Annotated[
    str | None,
    typer.Option(
        "--scheduler-name", metavar="NAME", help="The profile of --config; needed if it has several and none is default-scheduler."
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="The kubeconfig file; default: $KUBECONFIG, ~/.kube/config, the pod's service account."
    ),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The context of the kubeconfig.")]
Servers = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="A WharfingerConfiguration with the Prometheus servers and the policies."),
]
FORMAT = typer.Option("--format", help="The format of the output.")
"""Every command that prints a result has `text`, for people, and `json`; further ones are in the type of its parameter."""
TextOrJson = Annotated[Literal["text", "json"], FORMAT]
PrometheusUrl = Annotated[str | None, typer.Option("--prometheus", metavar="URL", help="The Prometheus server for metrics that name none.")]


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


class Words(Struct, frozen=True):
    """The kinds of words on a command's command line.

    `lists` are options that take every word up to the next option, as a shell expands `--policy policies/*.policy`. `valued` are all
    options with a value. `required` is the number of words that the command needs besides options: `pod` and `NAME` of `wharf explain`.
    """

    lists: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    required: int = 0


def words_of(command: Any) -> Words:
    """The words of a command. Lists are its repeatable options for paths, unless the command takes a list of words itself."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if any(each.nargs == -1 for each in arguments):
        return Words()
    options = [each for each in command.params if each.param_type_name == "option"]
    return Words(
        lists=frozenset(name for each in options if each.multiple and each.metavar in {"FILE", "PATH"} for name in each.opts),
        valued=frozenset(name for each in options if not (each.is_flag or each.count) for name in each.opts),
        required=sum(each.required for each in arguments),
    )


def repeated(words: Sequence[str], known: Words) -> list[str]:
    """The words with `--policy a b` as `--policy a --policy b`, for the options that are lists: the form that typer takes.

    Positional arguments after a list are the last words of the list: `-s a b pod web` explains the pod `web`.
    """
    behind: list[list[int]] = []  # for each list option, the places of the words behind its own
    n_free = 0
    is_list = has_value = False
    for at, word in enumerate(words):
        if word.startswith("-") and word != "-":
            is_list, has_value = word in known.lists, word in known.valued
            if is_list:
                behind.append([])
        elif has_value:
            has_value = False
        elif is_list:
            behind[-1].append(at)
        else:
            n_free += 1
    option_of = {at: words[places[0] - 2] for places in behind for at in places}
    missing = known.required - n_free
    enough = [places for places in behind if len(places) >= missing > 0]
    for at in enough[-1][-missing:] if enough else ():
        del option_of[at]
    return [part for at, word in enumerate(words) for part in ((option_of[at], word) if at in option_of else (word,))]
