"""What becomes of a group, in words: the same for a dry run, an explanation and the live page.

A group is tried when all members that it needs are there. `awaiting` says what is missing until then, `answered` what the search found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.terms import DomainFit, Group, GroupAnswer, GroupTerms, NotFound, Placed
from wharfinger.language.report.wording import count


class GroupState(Enum):
    """What becomes of a group."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """What becomes of a group.

    `members` are all that are known, `placed` those with a node in the end. `message` says why others have none; "" if all have one.
    `domains` are those in which it is placed, by topology key; `nearest` those that take most members, where it is not. `victims` are the
    pods that preemption evicts for it.
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
        """Why a member has no node."""
        return f"group {self.group}: {self.message}"

    @property
    def is_placed(self) -> bool:
        """True if it has as many members with a node as it needs."""
        return self.state in {GroupState.PLACED, GroupState.IN_PART}


def missing_members(index: GroupIndex, key: str, held: int = 0) -> str:
    """Why a group cannot be tried yet, "" if it can. `held` of its members are there and may not be tried."""
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


def answered(group: Group, answer: GroupAnswer, held: int = 0) -> GroupResult:
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
