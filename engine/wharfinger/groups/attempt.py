"""One attempt to place a group: whether enough members exist, and the nodes that the search finds for them.

A decision changes no state. The caller assumes the members on their nodes, or reports why they wait.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from wharfinger.groups.placing import placing
from wharfinger.groups.preempting import PreemptionAnswer, no_victims, preempting
from wharfinger.groups.results import GroupResult, awaiting, missing_members, result_of
from wharfinger.groups.terms import Group, GroupAnswer, Impossible, Placed, Preemption

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot


class Attempt(Struct, frozen=True, kw_only=True):
    """The result for a group, and the nodes of its placed members in the order in which they are assumed.

    `without` are the members that were tried and get none; `answer` is None where members are missing. `freed` is the preemption for a
    group without a place, None if it does not help or was not tried.
    """

    result: GroupResult
    placed: tuple[tuple[PodView, str], ...] = ()
    without: tuple[PodView, ...] = ()
    answer: GroupAnswer | None = None
    freed: Preemption | None = None
    group: Group | None = None

    def after_evictions(self) -> Attempt:
        """The result for the group after the victims of preemption have left; the same result if there are none."""
        if self.freed is None or self.group is None:
            return self
        victims = tuple(pod.key for pod in self.freed.victims)
        return _placed(self.group, self.freed.placement, structs.replace(result_of(self.group, self.freed.placement), victims=victims))


def attempt(  # noqa: PLR0913 — the keyword is about what may be done for the group
    decider: Decider, state: ClusterState, index: GroupIndex, key: str, pods: Sequence[PodView], *, preempt: bool = False
) -> Generator[None, None, Attempt]:
    """A generator of steps that searches places for the waiting members `pods` of a group; it returns the result.

    With `preempt`, which pods would have to leave is looked for where it was shown that the group has no place, as the scheduler does.
    `state` may be changed between two steps, and is as before in the end.
    """
    group = index.group(key)
    tried = {pod.uid for pod in pods}
    held = sum(not pod.node_name and pod.uid not in tried for pod in index.members(key))
    why = missing_members(index, key, held)
    if group is None or why:
        return Attempt(result=awaiting(index, key, why), without=tuple(pods))
    asked = structs.replace(group, waiting=tuple(pods))
    with without_nominations(state, asked.waiting):
        answer = yield from placing(decider, state, asked)
    result = result_of(asked, answer, held)
    if isinstance(answer, Placed):
        return _placed(asked, answer, result)
    freed: PreemptionAnswer | None = None
    if preempt and isinstance(answer, Impossible):
        freed = yield from _preemption(decider, state, index, asked)
        if not isinstance(freed, Preemption):
            result = structs.replace(result, message=f"{result.message}. {freed.message}")
    found = freed if isinstance(freed, Preemption) else None
    return Attempt(result=result, without=tuple(pods), answer=answer, freed=found, group=asked)


def _placed(group: Group, answer: Placed, result: GroupResult) -> Attempt:
    by_uid = {pod.uid: pod for pod in group.waiting}
    placed = tuple((by_uid[uid], node) for uid, node in answer.nodes.items())
    return Attempt(result=result, placed=placed, without=answer.left, answer=answer, group=group)


def _preemption(decider: Decider, state: ClusterState, index: GroupIndex, group: Group) -> Generator[None, None, PreemptionAnswer]:
    """The pods that must leave for the group; there is no search if no pod has a lower priority."""
    if (impossible := no_victims(group, state.snapshot())) is not None:
        return impossible
    with without_nominations(state, group.waiting):
        return (yield from preempting(decider, state, group, index.disrupted_as_whole()))


def decided(decider: Decider, snapshot: Snapshot, pod: PodView, node: str, group: str) -> Decision:
    """The decision about a member, with the node that the search of its group chose; its details are those of the pod alone."""
    decision = decider.decide(snapshot, pod)
    if decision.node == node:
        return structs.replace(decision, group=group)
    row, claims = snapshot.known_row(node), decision.claims_at(node)
    return structs.replace(decision, node=node, row=row, ties=1, message="", nominated=None, victims=(), claims=claims, group=group)


def undecided(decider: Decider, snapshot: Snapshot, pod: PodView, result: GroupResult) -> Decision:
    """The decision about a member whose group gives it no node, whether or not the pod alone would have one."""
    decision, why = decider.decide(snapshot, pod), result.of_member
    return structs.replace(decision, node=None, row=None, ties=0, message=why, nominated=None, victims=(), claims=(), group=result.group)


@contextmanager
def without_nominations(state: ClusterState, pods: Sequence[PodView]) -> Iterator[None]:
    """A context in which none of some pods is nominated: room that is kept for a member is free for all of its group."""
    snapshot = state.snapshot()
    nominated = [(pod, node) for pod in pods if (node := snapshot.nominated_to(pod.uid)) is not None]
    for pod, _ in nominated:
        state.remove_nomination(pod)
    try:
        yield
    finally:
        for pod, node in nominated:
            if not state.is_placed(pod.uid):
                state.nominate(pod, node)
