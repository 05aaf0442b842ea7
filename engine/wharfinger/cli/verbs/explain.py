"""`wharf explain pod`: why a pod is where it is, or is nowhere, and what would have to change."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated
from urllib.parse import quote

import typer

from wharfinger.cli import chosen_policies, live_cluster, options, running_process, streams
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.explain.explained_pod import ExplainedPod, explained
from wharfinger.framework.chain import assemble
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.cluster import Cluster


class Format(Enum):
    """How the explanation is printed."""

    TEXT = "text"
    JSON = "json"


def command(  # noqa: PLR0913, PLR0917 — one parameter per flag
    kind: Annotated[str, typer.Argument(metavar="pod", help="What to explain: pod.")],
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Which one; without a namespace, the one called default.")],
    url: running_process.Url = running_process.HERE,
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Decide here, on the cluster that the kubeconfig names.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="NODE",
            help="Say everything about this node; may be given several times.",
            autocompletion=options.offered_nodes,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How the explanation is printed.")] = Format.TEXT,
) -> int:
    """Say why a pod is on its node, why not on others, and what would have to change. Changes nothing anywhere.

    Asks the scheduler that runs at --url. With --snapshot or --live the decision is made here, by the policies given with --policy.
    """
    if kind not in {"pod", "pods", "po"}:
        raise UsageError(f"{kind}: only pods can be explained: wharf explain pod NAMESPACE/NAME")
    key = _key(name)
    if not (snapshot or live):
        _refuse_policies(policy, param, config, scheduler_name)
        _refuse_ways_in(kubeconfig, context)
        streams.out(_asked(url, key, node or [], output))
        return 0
    chain = assemble(chosen_policies.compiled(policy, param), chosen_policies.chosen(config, scheduler_name))
    found = live_cluster.cluster_of(snapshot or [], kubeconfig, context, live=live, skip_invalid=False)
    pod = _pod(found, key)
    told = explained(chain, found.state, pod, found.state.snapshot().now, node or [])
    streams.out(_shown(told, output))
    return 0


def _key(name: str) -> str:
    namespace, slash, own = name.rpartition("/")
    if not own or "/" in namespace or (slash and not namespace):
        raise UsageError(f"{name}: expected NAME or NAMESPACE/NAME")
    return f"{namespace or 'default'}/{own}"


def _refuse_policies(*given: object) -> None:
    if any(given):
        raise UsageError(
            "a running scheduler explains by its own policies and settings; with --policy, --param, --config or --scheduler-name, "
            "say also on what: --snapshot FILE or --live"
        )


def _refuse_ways_in(*given: str | None) -> None:
    if any(given):
        raise UsageError("--kubeconfig and --context say which cluster --live is about; a running scheduler is asked at its --url")


def _asked(url: str, key: str, nodes: list[str], output: Format) -> str:
    query = "&".join([f"format={output.value}", *(f"node={quote(node, safe='')}" for node in nodes)])
    return running_process.text(url, f"/explain/{quote(key)}?{query}")


def _pod(found: Cluster, key: str) -> PodView:
    pods = {view.key: view for view in map(PodView, found.objects.of(objects.Pod))}
    if key not in pods:
        meant = wording.closest(key, pods)
        raise UnknownObject(f"there is no pod {key}" + (f"; did you mean {meant}?" if meant else ""))
    if pods[key].finished:
        raise UsageError(f"pod {key} has ended ({pods[key].object.status.phase}); nothing is decided about it any more")
    return pods[key]


def _shown(told: ExplainedPod, output: Format) -> str:
    return str(told) if output is Format.TEXT else json.dumps(told.plain(), indent=2, ensure_ascii=False, default=str) + "\n"
