"""`wharf dry-run`: where pods would go, without a cluster to bind in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Annotated

import typer

from wharfinger.cli import chain_settings, completion, dry_run_formats, live_cluster, options, policy_set, progress, streams
from wharfinger.errors import UsageError
from wharfinger.framework.chain import assemble
from wharfinger.model.pod import PodView
from wharfinger.runtime import cluster, policy_warnings
from wharfinger.runtime.cluster import Cluster
from wharfinger.runtime.dry_run import dry_run
from wharfinger.runtime.profiles import DEFAULT_SCHEDULER
from wharfinger.runtime.simulator import Mode


class Format(Enum):
    """How the report is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def command(  # noqa: PLR0913, PLR0917 — one parameter per flag
    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None,
    live: Annotated[bool, typer.Option("--live", help="Take the cluster as it is now instead of a snapshot.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    pods: Annotated[
        list[str] | None,
        typer.Option("--pods", "-f", metavar="FILE", help="Place these pods (or the pods of these workloads) instead of pending ones."),
    ] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Place the snapshot's pods that have no node; the default.")] = False,
    pods_of: Annotated[
        str | None, typer.Option("--pods-of", metavar="NAME", help="Of the pending pods only those whose spec.schedulerName this is.")
    ] = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    mode: Annotated[Mode, typer.Option("--mode", help="Whether a placement counts for the pods after it.")] = Mode.SEQUENTIAL,
    output: Annotated[Format, typer.Option("--format", help="How the report is printed.")] = Format.TABLE,
    explain: Annotated[bool, typer.Option("--explain", help="Say for each pod what every rule said, with values.")] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NODE", help="Explain this node in full; may be given several times.", autocompletion=completion.nodes
        ),
    ] = None,
    pod: Annotated[
        list[str] | None,
        typer.Option("--pod", metavar="POD", help="Explain this pod only (name or namespace/name).", autocompletion=completion.pods),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 when a pod finds no node.")] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out objects that cannot be read instead of stopping.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at fields of --pods that Kubernetes does not know, instead of warning of them.")
    ] = False,
) -> int:
    """Place pods of a snapshot and report where each goes or why not. Changes nothing anywhere."""
    if pods and pending:
        raise UsageError("--pods and --pending exclude each other: the first says which pods, the second takes the snapshot's")
    if pods and pods_of is not None:
        raise UsageError("--pods-of chooses among pending pods; --pods says itself which ones")
    if strict and not pods:
        raise UsageError("--strict is about the manifests of --pods, and there are none")
    policies = policy_set.compiled(policy, param)
    chain = assemble(policies, chain_settings.chosen(config, scheduler_name))
    found = live_cluster.cluster_of(snapshot or [], kubeconfig, context, live=live, skip_invalid=skip_invalid)
    if not live and not found.objects.nodes:
        raise UsageError(
            "the snapshot holds no node, so there is nowhere to place a pod; `wharf snapshot` captures what decisions depend on"
        )
    waiting, remarks = cluster.load_pods(pods, found, skip_invalid=skip_invalid, strict=strict) if pods else (_pending(found, pods_of), ())
    for sentence in [
        *found.skipped,
        *cluster.immoderate(found.objects),
        *remarks,
        *policy_warnings.warnings(policies, found.state.snapshot(), waiting),
    ]:
        streams.complain(f"warning: {sentence}")
    if not waiting:
        where = "--pods holds none" if pods else "give some with --pods, or a snapshot with pending ones"
        streams.complain(f"warning: there are no pods to place; {where}")
    with progress.bar(sys.stderr, "placing", len(waiting)) as advance:
        result = dry_run(
            chain,
            found.state,
            waiting,
            mode=mode,
            explained=_wanted(explain, node, pod, waiting),
            nodes=node or (),
            advance=advance,
        )
    for note in result.notes:
        streams.complain(f"warning: {note}")
    streams.out(_RENDERERS[output](result, found))
    return 1 if exit_code and result.unplaced else 0


def _pending(found: Cluster, scheduler: str | None) -> tuple[PodView, ...]:
    if scheduler is None:
        return found.pending
    return tuple(pod for pod in found.pending if (pod.object.spec.scheduler_name or DEFAULT_SCHEDULER) == scheduler)


def _wanted(explain: bool, nodes: list[str] | None, names: list[str] | None, waiting: tuple[PodView, ...]) -> Callable[[PodView], bool]:
    """Which pods to explain: those named, or all as soon as an explanation is asked for."""
    if not names:
        everything = explain or bool(nodes)
        return lambda _pod: everything
    for name in names:
        if not any(name in (pod.name, pod.key) for pod in waiting):
            raise UsageError(f"--pod {name}: no such pod is to be placed")
    return lambda pod: pod.name in names or pod.key in names


_RENDERERS = {Format.TABLE: dry_run_formats.table, Format.JSON: dry_run_formats.as_json, Format.YAML: dry_run_formats.as_yaml}
