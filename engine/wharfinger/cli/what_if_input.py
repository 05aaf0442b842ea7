"""Flags and input of `wharf dry-run` and the other what-if commands, and the parts that their reports share.

The flags name the cluster, the policies and the pods. A command takes them as one parameter of type `WhatIfFlags`; `with_flags` gives typer
a parameter for each of them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer
from msgspec import Struct

from wharfinger.cli import chosen_policies, live_cluster, options, streams
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError, with_escapes
from wharfinger.explain import policy_warnings
from wharfinger.framework.chain import Chain, assemble
from wharfinger.garbage_collection import without_full_collections
from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import DomainFit
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import cluster
from wharfinger.simulate.cluster import Cluster
from wharfinger.simulate.dry_run import Utilisation

if TYPE_CHECKING:
    from wharfinger.framework.chain_settings import ChainConfig

MAX_LINE_LENGTH = 1_000_000  # never fold a line of YAML: folding makes diffs noisy

Format = Literal["text", "json", "yaml"]
Output = Annotated[Format, options.FORMAT]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfFlags:
    """The flags that name the cluster, the policies, the settings and the pods."""

    snapshot: Annotated[list[str] | None, options.SNAPSHOT] = None
    live: Annotated[bool, typer.Option("--live", help="Take the cluster as it is now instead of a snapshot.")] = False
    kubeconfig: options.Kubeconfig = None
    context: options.Context = None
    policy: options.Policies = None
    pods: Annotated[
        list[str] | None,
        typer.Option("--pods", "-f", metavar="FILE", help="Decide these pods, or the pods of these workloads, instead of pending ones."),
    ] = None
    param: options.Params = None
    config: options.Config = None
    scheduler_name: options.SchedulerName = None
    skip_invalid: Annotated[bool, typer.Option("--skip-invalid", help="Leave out objects that cannot be read instead of stopping.")] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at fields of --pods that Kubernetes does not know, instead of warning of them.")
    ] = False


class WhatIfInput(Struct, frozen=True, kw_only=True):
    """The objects that flags name, read and compiled; `pods` are those of `--pods`, in the order of the files."""

    policies: tuple[CompiledPolicy, ...]
    settings: ChainConfig | None
    chain: Chain
    cluster: Cluster
    pods: tuple[PodView, ...]


def read(flags: WhatIfFlags, waiting: Callable[[Cluster], tuple[PodView, ...]] = lambda _cluster: ()) -> WhatIfInput:
    """The input that the flags name; warnings about objects and policies go to standard error.

    `waiting` selects the pods of the cluster if `--pods` names none. Raises PolicyError for a policy that does not compile; UsageError for
    flags that exclude each other, a file that cannot be read, `--pods` without any pod and a cluster without a node; InvalidObject.
    """
    if flags.strict and not flags.pods:
        raise UsageError("--strict checks the manifests of --pods; give --pods too")
    policies = chosen_policies.compiled(flags.policy, flags.param)
    settings = chosen_policies.chosen(flags.config, flags.scheduler_name)
    chain = assemble(policies, settings)
    found = live_cluster.cluster_of(flags.snapshot or [], flags.kubeconfig, flags.context, live=flags.live, skip_invalid=flags.skip_invalid)
    pods, warnings = _pods(flags, found, waiting)
    streams.warn([*found.skipped, *cluster.oversized_amounts(found.objects), *warnings])
    if flags.pods and not pods:
        raise UsageError(f"--pods {', '.join(flags.pods)}: there are no pods to place; give a pod, or a workload with at least one pod")
    streams.warn(policy_warnings.warnings(policies, found.state.snapshot(), pods))
    return WhatIfInput(policies=policies, settings=settings, chain=chain, cluster=found, pods=pods)


def refuse_pods_and_pending(flags: WhatIfFlags, *, pending: bool) -> None:
    """Raise UsageError if both `--pods` and `--pending` are given."""
    if flags.pods and pending:
        raise UsageError("--pods and --pending exclude each other: the first names the pods, the second takes those of the snapshot")


def _pods(
    flags: WhatIfFlags, found: Cluster, waiting: Callable[[Cluster], tuple[PodView, ...]]
) -> tuple[tuple[PodView, ...], tuple[str, ...]]:
    """(the pods of `--pods`, or the waiting ones; a warning for each object that was not found)."""
    if flags.pods:
        return cluster.load_pods(flags.pods, found, skip_invalid=flags.skip_invalid, strict=flags.strict)
    return waiting(found), ()


def with_flags(function: Callable[..., int]) -> Callable[..., int]:
    """The function as typer takes it: a parameter whose type is a dataclass of flags becomes one parameter for each field."""
    hints = typing.get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}

    def command(**given: Any) -> int:
        grouped = {name: _group_flags(group, given) for name, group in groups.items()}
        with without_full_collections():  # the many objects that are read stay until the command ends: collections would find nothing
            return function(**grouped, **given)

    parameters = [
        flag
        for name, parameter in inspect.signature(function).parameters.items()
        for flag in (_parameters(hints[name]) if name in groups else [_keyword(name, hints[name], parameter.default)])
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters, return_annotation=int)  # what typer reads
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    command.__doc__ = function.__doc__
    return command


def _group_flags(group: Any, given: dict[str, Any]) -> Any:
    """The flags of a group, which are taken out of `given`."""
    return group(**{flag.name: given.pop(flag.name) for flag in dataclasses.fields(group)})


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    return [_keyword(flag.name, hints[flag.name], flag.default) for flag in dataclasses.fields(group)]


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def chain_value(chain: Chain) -> dict[str, Any]:
    """The policies and the revisions of a chain as plain values."""
    policies = [{"name": policy.name, "version": policy.version, "revision": policy.revision} for policy in chain.policies]
    return {"policies": policies, "revisions": revisions(chain)}


def revisions(chain: Chain) -> dict[str, str]:
    """The revisions of a chain, and of its policies alone."""
    return {"policies": chain.policy_revision, "chain": chain.revision}


def rendered(output: Format, text: Callable[[], str], value: Callable[[], Mapping[str, Any]]) -> str:
    """A report in a format: as text, or the plain value as JSON or YAML."""
    if output == "text":
        return text()
    if output == "json":
        # indented by msgspec: json's own indentation takes five times as long
        return with_escapes(msgspec.json.format(json.dumps(plain(value()), ensure_ascii=False), indent=2)) + "\n"
    return _as_yaml(plain(value()))


def _as_yaml(value: Any) -> str:
    """A plain value as YAML, with escapes for characters that cannot be seen."""
    import yaml  # noqa: PLC0415 — the other formats do not need it

    class Dumper(yaml.SafeDumper):
        def analyze_scalar(self, scalar: str) -> Any:
            found = super().analyze_scalar(scalar)
            if not scalar.isprintable():  # only double quotes have escapes
                found.allow_flow_plain = found.allow_block_plain = found.allow_single_quoted = found.allow_block = False
            return found

    return with_escapes(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=MAX_LINE_LENGTH))


# ── the use of a cluster ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def usage_lines(before: Utilisation, after: Utilisation | None) -> Iterator[str]:
    """A table as text: a line for the nodes and for each resource. It has no column `after` if nothing changed."""
    every = [("", "before", "after", "of"), *usage_rows(before, after or before)]
    shown = every if after is not None else [(name, old, of) for name, old, _, of in every]
    yield from wording.columns(shown, right=frozenset({1, 2, 3})).splitlines()


def usage_rows(before: Utilisation, after: Utilisation) -> Iterator[tuple[str, str, str, str]]:
    """(name, before, after, of how much) for the nodes that hold pods and for each resource."""
    yield "nodes touched", f"{before.touched:,}", f"{after.touched:,}", _change(before.nodes, after.nodes)
    for use in before.resources:
        then = after.of(use.resource)
        offered = [wording.amount(use.resource, amount) for amount in (use.allocatable, then.allocatable)]
        yield use.resource, wording.percent(use.fraction), wording.percent(then.fraction), " → ".join(dict.fromkeys(offered))


def _change(before: int, after: int) -> str:
    return " → ".join(f"{number:,}" for number in dict.fromkeys((before, after)))


def usage_value(found: Utilisation) -> dict[str, Any]:
    """The use of a cluster as plain values."""
    return {
        "nodes": found.nodes,
        "nodesTouched": found.touched,
        "pods": found.pods,
        "resources": {
            use.resource: {"requested": use.requested, "allocatable": use.allocatable, "fraction": round(use.fraction, 6)}
            for use in found.resources
        },
    }


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def group_lines(found: Sequence[GroupResult]) -> Iterator[str]:
    """A table as text: a line per group. For a group without a placement, also the domains that take most members. Empty without groups."""
    if not found:
        return
    rows = [("GROUP", "STATE", "PLACED", "WHERE, OR WHY NOT")]
    for result in found:
        rows.append(
            (result.group, result.state.value, f"{result.placed} of {result.members}", (result.message or _where(result)) + _evicts(result))
        )
        rows += [("", "", "", f"  {domain_fit(fit)}") for fit in result.nearest]
    yield from wording.columns(rows).splitlines()


def _where(result: GroupResult) -> str:
    """The domains of a group that is placed: `rack r1`; "-" where its terms name none."""
    return ", ".join(f"{key} {value}" for key, value in result.domains.items()) or "-"


def _evicts(result: GroupResult) -> str:
    return f", evicts {', '.join(result.victims)}" if result.victims else ""


def domain_fit(fit: DomainFit) -> str:
    """The number of members that a domain takes, and the reasons against the rest: `rack r7 takes 6 of 8: 3 Insufficient cpu`."""
    place = f"{fit.key} {fit.value}" if fit.key else "the cluster"
    reasons = wording.counted(fit.reasons)
    return f"{place} takes {fit.fits} of {fit.wanted}" + (f": {reasons}" if reasons else "")
