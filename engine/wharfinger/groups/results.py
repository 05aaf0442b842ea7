"""The state of a group in words: for a dry run, an explanation, the live page, and the status of its PodGroup.

A group is tried when all members that it needs are there. `awaiting` describes what is missing until then, `result_of` the result of the
search.

kube-scheduler 1.36 names neither the domain nor the reason in the conditions of a PodGroup. Here its sentence comes first, so that tools
that know it continue working, and then what stops the group.

Source: submitPodGroupAlgorithmResult and updatePodGroupCondition, pkg/scheduler/schedule_one_podgroup.go; plugins/topologyaware; Kubernetes
1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from wharfinger.framework.ports import Condition, condition_message
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.terms import DomainFit, Group, GroupAnswer, GroupTerms, NotFound, Placed
from wharfinger.language.report.wording import count
from wharfinger.model import objects

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


class GroupState(Enum):
    """The outcome of an attempt to place a group."""

    PLACED = "placed"
    """All of its members have a node."""
    IN_PART = "placed in part"
    """As many members as it needs have a node; the others have none."""
    AWAITING = "waits for members"
    """Fewer members are there than it needs, or its PodGroup is not."""
    NO_ROOM = "waits for room"
    """It was shown that it cannot be placed now."""
    NOT_FOUND = "not found"
    """No place was found within the budget of the search, and none was shown to be impossible."""


class GroupResult(Struct, frozen=True, kw_only=True):
    """The outcome of an attempt to place a group, with its members.

    `members` are all that are known, `placed` those with a node in the end. `message` is the reason why others have none; "" if all have
    one. `domains` are those in which it is placed, by topology key; `nearest` those that take most members, where it is not. `victims` are
    the pods that preemption evicts for it.
    """

    group: str
    source: str
    min_count: int
    members: int
    placed: int
    state: GroupState
    message: str
    domains: Mapping[str, str] = field(default_factory=dict)
    nearest: tuple[DomainFit, ...] = ()
    victims: tuple[str, ...] = ()

    @property
    def of_member(self) -> str:
        """The reason why a member has no node."""
        return f"group {self.group}: {self.message}"

    @property
    def is_placed(self) -> bool:
        """True if it has as many members with a node as it needs."""
        return self.state in {GroupState.PLACED, GroupState.IN_PART}


def missing_members(index: GroupIndex, key: str, held: int = 0) -> str:
    """The reason why a group cannot be tried yet, "" if it can. `held` of its members exist and may not be tried."""
    terms, members = index.terms(key), len(index.members(key))
    if terms is None:
        return "there is no PodGroup of that name"
    if members < terms.min_count:
        return f"{members} of {count(terms.min_count, 'member')} {'is' if members == 1 else 'are'} there"
    if members - held < terms.min_count:
        return (
            f"{held} of {count(members, 'member')} {'is' if held == 1 else 'are'} held back, and {terms.min_count} must be placed at once"
        )
    return ""


def awaiting(index: GroupIndex, key: str, why: str) -> GroupResult:
    """The result for a group that is not tried because of missing members."""
    members = index.members(key)
    return GroupResult(
        group=key,
        source=_source(index.terms(key)),
        min_count=0 if (terms := index.terms(key)) is None else terms.min_count,
        members=len(members),
        placed=sum(bool(pod.node_name) for pod in members),
        state=GroupState.AWAITING,
        message=why,
    )


def _source(terms: GroupTerms | None) -> str:
    return "" if terms is None else terms.source


def result_of(group: Group, answer: GroupAnswer, held: int = 0) -> GroupResult:
    """The result for a group that was tried; `held` further members are there and may not be tried."""
    members, before = len(group.waiting) + len(group.placed) + held, len(group.placed)
    if isinstance(answer, Placed):
        placed = before + len(answer.nodes)
        state = GroupState.PLACED if placed == members else GroupState.IN_PART
        return GroupResult(
            group=group.key,
            source=group.terms.source,
            min_count=group.terms.min_count,
            members=members,
            placed=placed,
            state=state,
            message="" if state is GroupState.PLACED else f"{placed} of {count(members, 'member')} have a place",
            domains=answer.domains,
        )
    state = GroupState.NOT_FOUND if isinstance(answer, NotFound) else GroupState.NO_ROOM
    return GroupResult(
        group=group.key,
        source=group.terms.source,
        min_count=group.terms.min_count,
        members=members,
        placed=before,
        state=state if group.needed or not before else GroupState.IN_PART,
        message=answer.message,
        nearest=answer.nearest,
    )


SCHEDULED = "PodGroupScheduled"
DISRUPTED = "DisruptionTarget"
UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_PREEMPTION = "pod group is waiting for preemption to complete"


def scheduled() -> Condition:
    """The condition of a group of which as many members are placed as must be."""
    return Condition(type=SCHEDULED, status="True", reason="Scheduled", message="")


def unschedulable(message: str) -> Condition:
    """The condition of a group that is not placed now."""
    return Condition(type=SCHEDULED, status="False", reason="Unschedulable", message=condition_message(message))


def scheduler_error(message: str) -> Condition:
    """The condition of a group for which deciding failed."""
    return Condition(type=SCHEDULED, status="False", reason="SchedulerError", message=condition_message(message))


def disrupted(scheduler_name: str, preemptor: str = "pod") -> Condition:
    """The condition of a group that is evicted as a whole for a `pod` or `podgroup`."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority {preemptor}"
    return Condition(type=DISRUPTED, status="True", reason="PreemptionByScheduler", message=message)


def rejection(group: Group, snapshot: Snapshot, why: str = "") -> str:
    """The message about a group that is not placed: kube-scheduler's sentence, then `why`."""
    said = _rejection(placements(group, snapshot))
    return f"{said}; {why}" if why else said


def _rejection(count: int) -> str:
    if not count:
        return "no feasible placements found"
    return f"0/{count} placements are available, first placement status: {UNSCHEDULABLE}"


def placements(group: Group, snapshot: Snapshot) -> int:
    """The number of domains that the group can choose from: of its last required level, only that of placed members if there are any.

    1 without a required level: the whole cluster.
    """
    keys = [level.key for level in group.terms.levels if level.required]
    if not keys:
        return 1
    domains, _ = snapshot.domain(keys[-1])
    placed = [row for pod in group.placed if (row := snapshot.row(pod.node_name)) is not None]
    found = domains[placed] if placed else domains
    return len(np.unique(found[found >= 0]))


def keeps(group: objects.PodGroup, condition: Condition) -> bool:
    """True if a condition must not replace that of the group, or would not change it: a group once scheduled stays so."""
    for known in group.status.conditions:
        if known.type == condition.type:
            same = (known.status, known.reason, known.message) == (condition.status, condition.reason, condition.message)
            return same or (known.status == "True" and condition.status != "True")
    return False
