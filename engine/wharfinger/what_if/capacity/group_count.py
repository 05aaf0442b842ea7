"""Counts whole groups: those that are asked about, and further ones like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wharfinger.event_loop import at_once
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import NotFound
from wharfinger.groups.turns import set_group_sizes
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.placing import place_on
from wharfinger.what_if.capacity.further_pods import further_groups
from wharfinger.what_if.supposed_changes import SupposedChanges

if TYPE_CHECKING:
    from wharfinger.groups.attempt import Attempt


@dataclass(slots=True)
class FoundGroup:
    """What is counted for one group: the nodes of its members, and for each further group like it the nodes of that one's members.

    `domains` has the domains of each group that is placed, the one asked about first. `stop` says why the next one has no place, and
    `stopped` is a member of it without a node.
    """

    key: str
    pods: tuple[PodView, ...]
    placed: list[str] = field(default_factory=list)
    result: GroupResult | None = None
    more: list[tuple[str, ...]] = field(default_factory=list)
    domains: list[dict[str, str]] = field(default_factory=list)
    at_least: bool = False
    stop: GroupResult | None = None
    stopped: PodView | None = None

    @property
    def total(self) -> int:
        """How many of these groups have a place, each with all of its members."""
        return len(self.more) + (len(self.placed) == len(self.pods))


class GroupCount:
    """Places groups on a state with supposed changes; `index` has them and their members."""

    def __init__(self, decider: Decider, supposed: SupposedChanges, index: GroupIndex, advance: Callable[[], None]) -> None:
        self._decider = decider
        self._chain = decider.chain
        self._supposed = supposed
        self.index = index
        self._advance = advance
        self.decisions = 0
        self.found: dict[str, FoundGroup] = {}

    def place(self, key: str, pods: Sequence[PodView]) -> bool:
        """True if all these members of a group, and all that it needs, have a node now."""
        own = self.found.setdefault(key, FoundGroup(key, tuple(pods)))
        placed = {pod.uid for pod in self.index.members(key) if pod.node_name}
        waiting = [pod for pod in pods if pod.uid not in placed]
        free = [pod for pod in waiting if self._chain.gate(pod) is None]
        found = self._attempt(key, free)
        if own.result is None or found.placed:
            own.result = found.result
        own.placed += self._put(found)
        if found.placed and not own.domains:
            own.domains.append(dict(found.result.domains))
        own.stop = None if len(found.placed) == len(waiting) and waiting else found.result
        own.stopped = _first_left(found)
        return own.stop is None

    def fill(self, key: str, most: int) -> None:
        """Place further groups like one of which all members are placed, until one has no place or there are `most`."""
        own = self.found[key]
        if own.stop is not None:
            return
        state = self._supposed.state
        for further in further_groups(self.index, key, own.pods, state):
            if len(own.more) >= most:
                own.at_least = True
                return
            if further.pod_group is not None:
                self._supposed.put(further.pod_group)
            for pod in further.pods:
                self.index.put(pod)
            set_group_sizes(self.index, state)
            found = self._attempt(self.index.key_of(further.pods[0].uid) or key, further.pods)
            if len(found.placed) < len(further.pods):
                own.stop, own.stopped = found.result, _first_left(found)
                for pod in further.pods:
                    self.index.remove(pod.uid)
                return
            own.more.append(tuple(self._put(found)))
            own.domains.append(dict(found.result.domains))

    def _attempt(self, key: str, pods: Sequence[PodView]) -> Attempt:
        from wharfinger.groups.attempt import attempt  # noqa: PLC0415 — most questions have no groups, and start earlier without

        self.decisions += len(pods)
        claimed = tuple(map(self._supposed.claimed, pods))
        found = at_once(attempt(self._decider, self._supposed.state, self.index, key, claimed))
        if isinstance(found.answer, NotFound):
            self.decisions += found.answer.steps
        return found

    def _put(self, found: Attempt) -> list[str]:
        for pod, node in found.placed:
            self.index.put(place_on(self._decider, self._supposed, pod, node).placed_on(node))
            self._advance()
        return [node for _, node in found.placed]


def _first_left(found: Attempt) -> PodView | None:
    """A member that was tried and has no node; None if all have one, or members were missing."""
    return found.without[0] if found.answer is not None and found.without else None
