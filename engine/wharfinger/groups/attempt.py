"""One try to place a group: is everybody there, and where does the search put them.

What is decided here changes nothing: the caller assumes the members on their nodes, or says why they wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wharfinger.groups.placing import placing
from wharfinger.groups.results import GroupResult, answered, awaiting, missing_members
from wharfinger.groups.terms import GroupAnswer, Placed

if TYPE_CHECKING:
    from wharfinger.framework.evaluation.cycle import Decider
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What was found for a group: its result, and the node of each member that gets one, in the order in which they are assumed.

    `without` are the members that were tried and get none; `answer` is None where members are missing.
    """

    result: GroupResult
    placed: tuple[tuple[PodView, str], ...] = ()
    without: tuple[PodView, ...] = ()
    answer: GroupAnswer | None = None


def attempt(decider: Decider, state: ClusterState, index: GroupIndex, key: str, pods: Sequence[PodView]) -> Generator[None, None, Attempt]:
    """A generator of steps that returns what is found for the members `pods` of a group, which wait and may be tried.

    `state` may be changed between two steps, and is as before in the end.
    """
    group = index.group(key)
    tried = {pod.uid for pod in pods}
    held = sum(not pod.node_name and pod.uid not in tried for pod in index.members(key))
    why = missing_members(index, key, held)
    if group is None or why:
        return Attempt(result=awaiting(index, key, why), without=tuple(pods))
    asked = dataclasses.replace(group, waiting=tuple(pods))
    with without_nominations(state, asked.waiting):
        answer = yield from placing(decider, state, asked)
    result = answered(asked, answer, held)
    if not isinstance(answer, Placed):
        return Attempt(result=result, without=tuple(pods), answer=answer)
    by_uid = {pod.uid: pod for pod in pods}
    placed = tuple((by_uid[uid], node) for uid, node in answer.nodes.items())
    return Attempt(result=result, placed=placed, without=answer.left, answer=answer)


def decided(decider: Decider, snapshot: Snapshot, pod: PodView, node: str) -> Decision:
    """The decision about a member, with the node that the search of its group chose; its details are those of the pod alone."""
    decision = decider.decide(snapshot, pod)
    if decision.node == node:
        return decision
    return dataclasses.replace(decision, node=node, row=snapshot.known_row(node), ties=1, message="", nominated=None, victims=())


def undecided(decider: Decider, snapshot: Snapshot, pod: PodView, why: str) -> Decision:
    """The decision about a member whose group gives it no node: `why` is the message, whether or not the pod alone would have a node."""
    decision = decider.decide(snapshot, pod)
    return dataclasses.replace(decision, node=None, row=None, ties=0, message=why, nominated=None, victims=())


@contextmanager
def without_nominations(state: ClusterState, pods: Sequence[PodView]) -> Iterator[None]:
    """A context in which none of some pods is nominated: room that is kept for a member is free for all of its group."""
    snapshot = state.snapshot()
    nominated = [(pod, node) for pod in pods if (node := snapshot.nominated_to(pod.uid)) is not None]
    for pod, _ in nominated:
        state.denominate(pod)
    try:
        yield
    finally:
        for pod, node in nominated:
            if not state.is_placed(pod.uid):
                state.nominate(pod, node)
