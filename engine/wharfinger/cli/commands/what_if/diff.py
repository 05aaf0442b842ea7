"""`wharf diff`: what another set of policies, params or settings changes about where pods go, and why."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from wharfinger.cli import chosen_policies, diff_report, options, streams, what_if_input
from wharfinger.cli.diff_report import Titles
from wharfinger.cli.what_if_input import WhatIfFlags, WhatIfInput, with_flags
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.model.node_labels import ZONE
from wharfinger.what_if.diff import Diff, LogDiff, diff, log_diff
from wharfinger.what_if.leaving_pods import replaced_pods

DEFAULT_ROWS = 50
MIN_PODS_FOR_TWO_PROCESSES = 1000
"""Pods below which a second process is not worth its start."""
NO_POLICIES = "no policies, the settings of Kubernetes"


Format = Literal["text", "json", "yaml", "markdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstFlags:
    """The side that --policy, --param and --config are compared with."""

    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="PATH",
            help="The policies to compare with; without any --against…, none.",
            autocompletion=options.complete_policies,
        ),
    ] = None
    against_param: Annotated[
        list[str] | None, typer.Option("--against-param", metavar="NAME=VALUE", help="Sets a param on the side to compare with.")
    ] = None
    against_config: Annotated[
        str | None, typer.Option("--against-config", metavar="FILE", help="The KubeSchedulerConfiguration of the side to compare with.")
    ] = None


@with_flags
def wharf_diff(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    against: AgainstFlags,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", metavar="PODS", help="Place running pods again too: all, namespace=NAME or selector=LABELS."),
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="LOG", help="Compare over the decisions of a log, each on the cluster as it was then.")
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="LABEL", help=f"Count pods by the values of this label of nodes; default: {ZONE}.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--most", metavar="N", min=0, help=f"List no more than N changes in tables; default: {DEFAULT_ROWS}."),
    ] = None,
    output: Annotated[Format, options.FORMAT] = "text",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if something differs.")] = False,
) -> int:
    """Compare where pods are placed by two sets of policies: which pods differ, and by which rule. Writes nothing to the cluster.

    What has no --against… of its own is the same on both sides; params belong to their policies. Without any --against…, --policy is
    compared with no policies, and --config alone with the settings of Kubernetes.

    $ wharf diff --snapshot cluster.json.gz --policy new/ --against old/
    """
    if limit is not None and output in {"json", "yaml"}:
        raise UsageError(f"--most is about tables, and --format {output} has every change; leave it out")
    found: Diff | LogDiff
    if log is None:
        found, titles = _over_pods(flags, against, replace or [], by or [])
    else:
        _refuse_cluster(flags, against, replace, by)
        found, titles = _over_log(log, flags, against)
    streams.warn(found.notes)
    streams.out(_rendered(found, titles, output, DEFAULT_ROWS if limit is None else limit))
    return 1 if exit_code and found.totals.changes else 0


def _over_pods(flags: WhatIfFlags, against: AgainstFlags, words: list[str], labels: list[str]) -> tuple[Diff, Titles]:
    inputs = what_if_input.read(flags, lambda found: found.pending)
    replaced = replaced_pods(inputs.cluster.state, words)
    before, titled = _against(flags, against, inputs)
    if before.revision == inputs.chain.revision:
        streams.warn(["both sides have the same policies and settings; name the other side with --against"])
    if not inputs.pods and not replaced:
        streams.warn(["there are no pending pods to place; give pods with --pods, or place running pods again with --replace"])
    with streams.bar(sys.stderr, "placing on both sides", 2 * (len(inputs.pods) + len(replaced))) as advance:
        found = diff(
            before,
            inputs.chain,
            inputs.cluster.state,
            inputs.pods,
            replaced=replaced,
            labels=labels,
            advance=advance,
            in_two_processes=len(inputs.pods) + len(replaced) >= MIN_PODS_FOR_TWO_PROCESSES,
        )
    return found, Titles(before=titled, after=_described(inputs.chain, flags.config))


def _against(flags: WhatIfFlags, against: AgainstFlags, inputs: WhatIfInput) -> tuple[Chain, str]:
    """The chain to compare with, and its name. What is not given for it is as on the side after."""
    if not any(dataclasses.astuple(against)):
        if not inputs.policies:
            return assemble(()), NO_POLICIES
        return assemble((), inputs.settings), "no policies; give --against for others"
    own = against.against or against.against_param
    policies = chosen_policies.compiled(against.against or flags.policy, against.against_param) if own else inputs.policies
    if against.against_config is None:
        settings, config = inputs.settings, flags.config
    else:
        settings, config = chosen_policies.chosen(against.against_config, flags.scheduler_name), against.against_config
    chain = assemble(policies, settings)
    return chain, _described(chain, config)


def _described(chain: Chain, config: str | None) -> str:
    names = ", ".join(f"{policy.name} {policy.revision[:8]}" for policy in chain.policies) or "no policies"
    return f"{names}, settings of {config}" if config else names


def _over_log(log: str, flags: WhatIfFlags, against: AgainstFlags) -> tuple[LogDiff, Titles]:
    after = chosen_policies.others_for_log(flags.policy, flags.param, flags.scheduler_name)
    if after is None:
        raise UsageError("--log: there are no policies to compare with; give --policy or --param")
    given = against.against or against.against_param
    before = chosen_policies.others_for_log(against.against, against.against_param, flags.scheduler_name) if given else None
    own, other = (" ".join(paths) if paths else None for paths in (flags.policy, against.against))
    titles = Titles(
        before=_of_log(other, against.against_param) if given else "the policies of the log",
        after=_of_log(own, flags.param),
    )
    return log_diff(log, after, before), titles


def _of_log(paths: str | None, params: list[str] | None) -> str:
    return " with ".join([paths or "the policies of the log", *([", ".join(params)] if params else [])])


def _refuse_cluster(flags: WhatIfFlags, against: AgainstFlags, replace: list[str] | None, by: list[str] | None) -> None:
    """Raise UsageError for flags about a cluster or settings: a log has its own."""
    given = {
        "--snapshot": flags.snapshot,
        "--live": flags.live,
        "--kubeconfig": flags.kubeconfig,
        "--context": flags.context,
        "--pods": flags.pods,
        "--config": flags.config,
        "--skip-invalid": flags.skip_invalid,
        "--strict": flags.strict,
        "--against-config": against.against_config,
        "--replace": replace,
        "--by": by,
    }
    named = [flag for flag, value in given.items() if value]
    if named:
        raise UsageError(f"--log and {named[0]} exclude each other: a log has its own cluster, pods and settings")


def _rendered(found: Diff | LogDiff, titles: Titles, output: Format, limit: int) -> str:
    if output == "markdown":
        return diff_report.markdown(found, titles, limit)
    return what_if_input.rendered(output, lambda: diff_report.table(found, titles, limit), lambda: diff_report.value(found, titles))
