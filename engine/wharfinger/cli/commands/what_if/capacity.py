"""`wharf capacity`: how many more pods fit, where, and what stops the next one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from wharfinger.cli import options, streams, what_if_input
from wharfinger.cli.what_if_input import WhatIfFlags, with_flags
from wharfinger.errors import UsageError
from wharfinger.language.report import wording
from wharfinger.what_if.capacity import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_NODES,
    Capacity,
    Change,
    Gain,
    GroupRoom,
    LessOf,
    Room,
    Share,
    capacity,
)
from wharfinger.what_if.room_count import Stop
from wharfinger.what_if.supposed_changes import NodesLike

MAX_ROWS = 10
"""Nodes, and reasons, that the table shows."""


def table(found: Capacity) -> str:
    """The report as text: a part for each group and each workload."""
    parts = [*map(_group, found.groups), *map(_room, found.rooms)]
    return "\n".join(map(wording.lines, parts))


def _group(room: GroupRoom) -> Iterator[str]:
    at_least = "at least " if room.at_least else ""
    fits = "it fits" if room.placed == room.pods else _placed(room.placed, room.pods)
    more = f"{at_least}{wording.count(room.more, 'more group')} like it"
    yield f"group {room.group}: {fits}, and {more}, of {wording.count(room.pods, 'pod')} each"
    if room.added is not None:
        yield f"  {_gain(room.added, 'group')}"
    if any(domain.key for domain in room.domains):
        rows = [(f"{domain.key} {domain.value}", f"{domain.groups:,}") for domain in room.domains[:MAX_ROWS]]
        yield from wording.columns([("domain", "groups"), *rows], right=frozenset({1}), indent="  ").splitlines()
        if len(room.domains) > MAX_ROWS:
            others = room.domains[MAX_ROWS:]
            yield f"  … and {sum(each.groups for each in others):,} in {wording.count(len(others), 'other domain')}"
    if room.stop is not None:
        yield f"  the next one has no place: {room.stop.message}"
        yield from (f"    {what_if_input.domain_fit(fit)}" for fit in room.stop.nearest)
        yield from _changes(room)


def _placed(placed: int, pods: int) -> str:
    return f"{placed:,} of {wording.count(pods, 'pod')} {'fits' if placed == 1 else 'fit'}"


def _room(room: Room) -> Iterator[str]:
    at_least = "at least " if room.at_least else ""
    yield f"{room.workload}: {_placed(room.placed, room.pods)}, and {at_least}{room.more:,} more"
    if room.added is not None:
        yield f"  {_gain(room.added)}"
    if room.by:
        for key, shares in room.by.items():
            yield from _shares(key, shares)
    elif room.nodes:
        yield from _shares("node", room.nodes[:MAX_ROWS])
        if len(room.nodes) > MAX_ROWS:
            others = room.nodes[MAX_ROWS:]
            yield f"  … and {sum(share.placed + share.more for share in others):,} on {wording.count(len(others), 'other node')}"
    if room.stop is not None:
        yield from _stop(room.stop)
        yield from _changes(room)


def _shares(title: str, shares: Sequence[Share]) -> Iterator[str]:
    rows = [(title, "pods", "more"), *((share.place or "(none)", f"{share.placed:,}", f"{share.more:,}") for share in shares)]
    yield from wording.columns(rows, right=frozenset({1, 2}), indent="  ").splitlines()


def _stop(stop: Stop) -> Iterator[str]:
    yield "  the next one finds no node:"
    rows = [(f"{nodes:,}", reason) for reason, nodes in stop.reasons[:MAX_ROWS]]
    if rows:
        yield from wording.columns([("nodes", "reason"), *rows], right=frozenset({0}), indent="    ").splitlines()
    else:
        yield f"    {stop.message}"
    if len(stop.reasons) > MAX_ROWS:
        yield f"    … and {wording.count(len(stop.reasons) - MAX_ROWS, 'more reason')}"
    if stop.nominated is not None:
        yield f"    it would fit on {stop.nominated} if {', '.join(stop.victims)} were evicted"


def _changes(room: Room | GroupRoom) -> Iterator[str]:
    helping = [gain for gain in room.gains if gain.more > 0]
    if helping:
        yield "  with one change each:"
        yield from (f"    {_gain(gain, 'group' if isinstance(room, GroupRoom) else '')}" for gain in helping)
    elif room.gains:
        yield f"  no single change of these helps: {', '.join(str(gain.change) for gain in room.gains)}"
    if room.untried:
        yield f"  not tried, as counting again takes long here: {', '.join(map(str, room.untried))}"


def _gain(gain: Gain, unit: str = "") -> str:
    at_least = "at least " if gain.at_least else ""
    more = wording.count(gain.more, f"more {unit}") if unit else f"{gain.more:,} more"
    return f"{at_least}{more} {gain.change}"


def _value(found: Capacity) -> dict[str, Any]:
    return {
        **what_if_input.chain_value(found.chain),
        "nodes": None if found.extra is None else {"like": found.extra.model, "count": found.extra.count},
        "workloads": [_room_value(room) for room in found.rooms],
        "groups": [_group_value(room) for room in found.groups],
    }


def _group_value(room: GroupRoom) -> dict[str, Any]:
    return {
        "group": room.group,
        "source": room.source,
        "pods": room.pods,
        "placed": room.placed,
        "more": room.more,
        "atLeast": room.at_least,
        "nodes": [_share(share, "node") for share in room.nodes],
        "domains": [{"key": each.key, "value": each.value, "groups": each.groups} for each in room.domains],
        "stop": room.stop,
        **_gains_value(room),
    }


def _room_value(room: Room) -> dict[str, Any]:
    return {
        "workload": room.workload,
        "pods": room.pods,
        "placed": room.placed,
        "more": room.more,
        "atLeast": room.at_least,
        "nodes": [_share(share, "node") for share in room.nodes],
        "by": {key: [_share(share, "value") for share in shares] for key, shares in room.by.items()},
        "stop": None if room.stop is None else _stop_value(room.stop),
        **_gains_value(room),
    }


def _gains_value(room: Room | GroupRoom) -> dict[str, Any]:
    return {
        "added": None if room.added is None else _gain_value(room.added),
        "changes": [_gain_value(gain) for gain in room.gains],
        "untried": [_change(change) for change in room.untried],
    }


def _share(share: Share, name: str) -> dict[str, Any]:
    return {name: share.place, "placed": share.placed, "more": share.more}


def _stop_value(stop: Stop) -> dict[str, Any]:
    value = {"pod": stop.pod, "message": stop.message, "reasons": dict(stop.reasons)}
    return value | ({"nominated": stop.nominated, "victims": list(stop.victims)} if stop.nominated else {})


def _gain_value(gain: Gain) -> dict[str, Any]:
    return {**_change(gain.change), "more": gain.more, "atLeast": gain.at_least}


def _change(change: Change) -> dict[str, Any]:
    if isinstance(change, NodesLike):
        return {"change": "nodes", "like": change.model, "count": change.count}
    if isinstance(change, LessOf):
        return {"change": "less", "resource": change.resource, "amount": change.amount}
    return {"change": "withoutRule", "rule": change.rule}


@with_flags
def wharf_capacity(  # noqa: PLR0913, PLR0917 — one parameter per flag
    flags: WhatIfFlags,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="LABEL", help="Count by this label of nodes instead of by node; may be given several times."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, max=MAX_NODES, help="Add N nodes like that of --like before counting.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like", metavar="NODE", help="The node that the nodes of --nodes are copies of.", autocompletion=options.complete_nodes
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--most", metavar="N", min=1, max=MAX_LIMIT, help="The maximum number of further pods that are counted.")
    ] = DEFAULT_LIMIT,
    output: what_if_input.Output = "text",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if not all of the pods fit.")] = False,
) -> int:
    """Report how many more pods fit, where, what stops the next one, and what would help. Writes nothing to the cluster.

    $ wharf capacity --live -f web.yaml --policy policies/
    """
    if like is None and nodes is not None:
        raise UsageError("--nodes needs --like NODE, the node to copy")
    inputs = what_if_input.read(flags, lambda found: found.pending)
    if not inputs.pods:
        raise UsageError("the cluster has no pending pods to count room for; give a pod or a workload with --pods")
    with streams.bar(sys.stderr, "counting", len(inputs.pods) + limit) as advance:
        found = capacity(
            inputs.chain,
            inputs.cluster.state,
            inputs.pods,
            by=by or (),
            extra=None if like is None else NodesLike(model=like, count=nodes or 1),
            limit=limit,
            advance=advance,
        )
    streams.out(what_if_input.rendered(output, lambda: table(found), lambda: _value(found)))
    return 1 if exit_code and not found.all_placed else 0
