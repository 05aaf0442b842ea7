"""The explanation of a group: the present result of the search, the members that each domain takes, and what stops the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from wharfinger.errors import UnknownObject
from wharfinger.framework.chain import Chain
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.attempt import Attempt, attempt
from wharfinger.groups.expected_room import domain_fits
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupState
from wharfinger.groups.terms import DomainFit, GroupTerms
from wharfinger.language.report import wording
from wharfinger.language.report.plain_values import plain
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.steps import at_once

MAX_DOMAINS = 50
"""Domains that are listed."""
HAS_A_PLACE = "has a place"
"""The state of a group that waits and would be placed now."""


class Member(Struct, frozen=True, kw_only=True):
    """A member of a group: `state` is `placed`, `would go here`, `waits`, or why it is held back; `node` is None where it has none."""

    pod: str
    state: str
    node: str | None


class ExplainedGroup(Struct, frozen=True, kw_only=True):
    """The placement of a group now, or the reasons against it.

    `state` is that of a result, or `has a place`. `terms` are sentences about what holds for it. `domains` say what each takes of the
    members that wait, most first; `omitted` further ones are left out.
    """

    group: str
    source: str
    state: str
    message: str
    terms: tuple[str, ...]
    domains: tuple[DomainFit, ...]
    omitted: int
    members: tuple[Member, ...]

    def __str__(self) -> str:
        return "\n".join(part for part in (wording.lines(self._head()), self._domains(), self._members()) if part)

    def _head(self) -> Iterator[str]:
        yield f"group {self.group}: {self.state}"
        if self.message:
            yield f"  {self.message}"
        yield from (f"  {sentence}" for sentence in self.terms)

    def _domains(self) -> str:
        if not self.domains:
            return ""
        rows = [("domain", "takes", "what stops the rest")]
        for fit in self.domains:
            place = f"{fit.key} {fit.value}".strip() or "the cluster"
            rows.append((place, f"{fit.fits} of {fit.wanted}", wording.counted(fit.reasons) or "-"))
        more = f"  and {wording.count(self.omitted, 'domain')} more\n" if self.omitted else ""
        return "  what each domain takes of the members that wait\n" + wording.columns(rows, indent="  ") + more

    def _members(self) -> str:
        rows = [("member", "state", "node"), *((member.pod, member.state, member.node or "-") for member in self.members)]
        return wording.columns(rows, indent="  ")

    def plain(self) -> Mapping[str, Any]:
        """The explanation as plain values, for JSON."""
        return dict(plain(self))


def explained_group(chain: Chain, state: ClusterState, index: GroupIndex, key: str, now: float) -> ExplainedGroup:
    """The explanation of the decision of a chain about a group at a time. `index` has the group; `state` is restored afterwards."""
    state.set_time(now)
    decider = Decider(chain)
    waiting, gates = free_members(chain, index, key)
    found = at_once(attempt(decider, state, index, key, waiting, preempt=True))
    group = index.group(key)
    fits: tuple[DomainFit, ...] = ()
    if group is not None and waiting and not found.placed:
        fits = at_once(domain_fits(decider, state, group))
    return ExplainedGroup(
        group=key,
        source=found.result.source,
        state=_state(found, waiting),
        message=_message(found, waiting),
        terms=tuple(_terms(index.terms(key), index, key)),
        domains=fits[:MAX_DOMAINS],
        omitted=max(0, len(fits) - MAX_DOMAINS),
        members=tuple(_members(index, key, found, gates)),
    )


def known_group(index: GroupIndex, key: str) -> str:
    """The key of a group that has members; raises UnknownObject where there is none."""
    if not index.members(key):
        nearest = wording.closest(key, index)
        raise UnknownObject(f"no pod is a member of a group {key}" + (f"; did you mean {nearest}?" if nearest else ""))
    return key


def free_members(chain: Chain, index: GroupIndex, key: str) -> tuple[list[PodView], dict[str, str]]:
    """(the members that wait and may be tried, why others that wait may not, by uid)."""
    waiting = [pod for pod in index.members(key) if not pod.node_name and not pod.terminating]
    gates = {pod.uid: gate.text for pod in waiting if (gate := chain.gate(pod)) is not None}
    return [pod for pod in waiting if pod.uid not in gates], gates


def _state(found: Attempt, waiting: list[PodView]) -> str:
    return HAS_A_PLACE if found.placed and waiting else found.result.state.value


def _message(found: Attempt, waiting: list[PodView]) -> str:
    if not found.placed:
        return found.result.message + _room_by_preemption(found)
    where = ", ".join(f"{key} {value}" for key, value in found.result.domains.items())
    nodes = wording.count(len({node for _, node in found.placed}), "node")
    within = f" in {where}" if where else ""
    return f"{len(found.placed)} of {wording.count(len(waiting), 'waiting member')} would be placed now{within}, on {nodes}"


def _room_by_preemption(found: Attempt) -> str:
    """The effect of preemption for the group, in a sentence; "" without any."""
    if found.freed is None:
        return ""
    leaving = named_victims(found.freed.victims, found.result.group.partition("/")[0])
    where = ", ".join(f"{key} {value}" for key, value in found.freed.placement.domains.items())
    return f". Preemption would make room{f' in {where}' if where else ''}: {leaving} would have to leave"


def named_victims(victims: Sequence[PodView], namespace: str) -> str:
    """The pods that would have to leave; those of other namespaces are only counted, as explanations are passed on to owners of pods."""
    own = [victim.key for victim in victims if victim.namespace == namespace]
    others = len(victims) - len(own)
    return ", ".join([*own, *([f"{wording.count(others, 'pod')} of other namespaces"] if others else [])])


def _terms(terms: GroupTerms | None, index: GroupIndex, key: str) -> Iterator[str]:
    """The terms of the group as sentences."""
    members = index.members(key)
    placed = sum(bool(pod.node_name) for pod in members)
    yield f"{wording.count(len(members), 'member')}, {placed} with a node"
    if terms is None:
        return
    yield f"{terms.source}: " + (
        f"at least {terms.min_count} at once, or none" if terms.min_count else "members are placed as far as there is room"
    )
    for level in terms.levels:
        yield f"all within one {level.key}" + ("" if level.required else ", if possible")
    yield from (f"groups are spread over {key}" for key in terms.spread)
    if terms.priority is not None:
        yield f"priority {terms.priority}"


def _members(index: GroupIndex, key: str, found: Attempt, gates: Mapping[str, str]) -> Iterator[Member]:
    nodes = {pod.uid: node for pod, node in found.placed}
    for pod in index.members(key):
        if pod.node_name:
            yield Member(pod=pod.key, state="is being deleted" if pod.terminating else "placed", node=pod.node_name)
        elif pod.uid in nodes:
            yield Member(pod=pod.key, state="would go here", node=nodes[pod.uid])
        else:
            yield Member(pod=pod.key, state=gates.get(pod.uid, "waits"), node=None)


def group_sentence(found: Attempt) -> str:
    """The state of the group of a member, in a sentence."""
    result = found.result
    if found.placed:
        where = ", ".join(f"{key} {value}" for key, value in result.domains.items())
        return f"it is a member of group {result.group}, which would be placed now" + (f" in {where}" if where else "")
    if result.state is GroupState.PLACED:
        return f"it is a member of group {result.group}, of which all members have a node"
    return f"it is a member of group {result.group}: {result.message}"
