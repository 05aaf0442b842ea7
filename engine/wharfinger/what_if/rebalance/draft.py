"""A copy of the cluster on which moves are tried and undone.

A move takes a pod off its node and places it where the chain decides, as the scheduler will after an eviction. Some controllers create the
replacement before the pod is gone: such a pod only moves where it is placed in both cases. No scheduler can be made
to choose a node, but a cordoned node gets no pod. So a move that must not end on some nodes cordons them first, and the chain decides
again. Each move keeps which nodes were cordoned for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace as with_changes

from wharfinger.errors import UnknownObject
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.plugins.taint_toleration import UNSCHEDULABLE_TAINT
from wharfinger.framework.prepared import Mask
from wharfinger.groups.attempt import attempt
from wharfinger.model.objects import key_of, kind_of
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import device_claims
from wharfinger.steps import at_once
from wharfinger.what_if.leaving_pods import MARKED, cordoned, may_be_replaced_early, recreated

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.prepared import ClaimAllocation
    from wharfinger.groups.membership import GroupIndex
    from wharfinger.model import objects
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

Acceptable = Callable[["Snapshot"], Mask]
"""The nodes on which a pod that is taken off its node may end, `(n_nodes,) bool`."""
Choice = Callable[["Decision", "Snapshot", Mask], str | None]
"""The node wanted among the acceptable ones that the chain ranks highest; None for the first of them."""

LOOKED_AT = 32
"""The number of best nodes that a choice examines at first; if none is acceptable, it examines more and more."""
MAX_ROUNDS = 16


class Moved(Struct, frozen=True, kw_only=True):
    """A pod that was moved, from a node to a node, while `cordoned` were cordoned; `ties`: nodes equally good, the target among them.

    `why` is the purpose in a few words, `gain` what it added to the value of its goal.
    """

    pod: PodView
    source: str
    target: str
    cordoned: frozenset[str]
    ties: int
    why: str = ""
    gain: float = 0.0


class Draft:
    """The state of a cluster, which it changes and restores; `moves` are those that have not been taken back.

    `decisions` counts the decisions of the chain, and `most_cordons` limits the nodes that are cordoned at a time.
    """

    def __init__(self, chain: Chain, state: ClusterState, most_cordons: int | None = None) -> None:
        self.state = state
        self.moves: list[Moved] = []
        self.decisions = 0
        self.most_cordons = most_cordons
        self._decider = Decider(chain)
        self._waiting: list[PodView] = []
        self._blocked: list[PodView] = []  # those of them that moves between other nodes may give a place
        self._index: GroupIndex | None = None  # if groups wait; with the pods as the moves have left them
        self._waiting_groups: Mapping[str, tuple[PodView, ...]] = {}
        self._blocked_groups: Mapping[str, tuple[PodView, ...]] = {}
        self._cordoned: dict[str, tuple[int, objects.Node]] = {}  # the rows of cordoned nodes, and these as they were
        self._undo: list[Callable[[], object]] = []
        self._again: dict[str, PodView] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as the moves have left it, until the next change."""
        return self.state.snapshot()

    @property
    def cordoned(self) -> frozenset[str]:
        """The nodes that are cordoned now, without those that were from the start."""
        return frozenset(self._cordoned)

    def mark(self) -> int:
        """The present point, for `back_to`."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back everything since the mark, the last first."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def cordon(self, name: str) -> bool:
        """Cordon a node; False if it was cordoned already, unknown, or one too many."""
        snapshot = self.snapshot
        row = snapshot.row(name)
        if row is None or name in self._cordoned or snapshot.unschedulable[row] or self._is_full():
            return False
        node = snapshot.node(row).object
        self._set_cordon(name, row, node)
        self._undo.append(partial(self._remove_cordon, name))
        return True

    def uncordon(self, names: Iterable[str]) -> None:
        """Undo `cordon` for some nodes."""
        for name in names:
            row, node = self._cordoned[name]
            self._remove_cordon(name)
            self._undo.append(partial(self._set_cordon, name, row, node))

    def ignore_cordon(self, name: str) -> None:
        """Treat a cordoned node as not cordoned, also one that was cordoned from the start; `cordoned` stays as it is."""
        snapshot = self.snapshot
        row = snapshot.row(name)
        if row is None or not snapshot.unschedulable[row]:
            return
        node = snapshot.node(row).object
        taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
        self.state.update_node(structs.replace(node, spec=structs.replace(node.spec, unschedulable=False, taints=taints)))
        self._undo.append(partial(self.state.update_node, node))

    def _is_full(self) -> bool:
        return self.most_cordons is not None and len(self._cordoned) >= self.most_cordons

    def _set_cordon(self, name: str, row: int, node: objects.Node) -> None:
        self._cordoned[name] = row, node
        self.state.update_node(cordoned(node))

    def _remove_cordon(self, name: str) -> None:
        _, node = self._cordoned.pop(name)
        self.state.update_node(node)

    def decide(self, pod: PodView) -> Decision:
        """The decision about a pod that is not placed."""
        self.decisions += 1
        return self._decider.decide(self.snapshot, pod)

    def recreated(self, pod: PodView) -> PodView:
        """The pod as its controller creates it again."""
        found = self._again.get(pod.uid)
        if found is None:
            found = self._again[pod.uid] = recreated(pod)
        return found

    def evict(self, pod: PodView) -> str:
        """Take a placed pod off its node; return the node."""
        placed = self.snapshot.placed(pod.uid)
        if placed is None:
            raise UnknownObject(f"pod {pod.key} is on no node")
        row, own = placed
        source = self.snapshot.names[row]
        self.state.remove_pod(own)
        self._undo.append(lambda: self.state.add_pod(own.placed_on(source)))
        if self._index is not None and self._index.remove(own.uid) is not None:
            self._undo.append(partial(self._index.put, own.placed_on(source)))
        device_claims.give_back_claims(self.state, own, self._put, self._drop)
        return source

    def move(self, pod: PodView, acceptable: Acceptable, kept: frozenset[str], wanted: Choice | None = None) -> Moved | None:
        """Move a pod to an acceptable node; None if there is none, and then nothing has changed.

        The nodes of `kept` stay cordoned, and the pod's own node is cordoned while it moves. Other cordoned nodes are uncordoned if they
        are acceptable. `wanted` chooses among the acceptable nodes; if it chooses none, the chain's own choice is taken.
        """
        mark = self.mark()
        source = self.evict(pod)
        snapshot = self.snapshot
        mask = acceptable(snapshot)
        uncordoned = [name for name, (row, _) in self._cordoned.items() if mask[row] and name not in kept and name != source]
        self.uncordon(uncordoned)
        frees = not {move.source for move in self.moves}.isdisjoint(uncordoned)
        self.cordon(source)
        pending = self.claimed(self.recreated(pod))
        for number in range(MAX_ROUNDS):
            decision = self.decide(pending)
            if decision.node is None or decision.row is None:
                break
            target = None if wanted is None else wanted(decision, self.snapshot, mask)
            if decision.node == target or (target is None and mask[decision.row]):
                closing = _equal_but_not_acceptable(decision, self.snapshot, mask)
                if not closing:
                    if self._lets_in(frees=frees) or not self._goes_there_early(pod, pending, source, decision.node):
                        break
                    moved = self._placed(pod, pending, source, decision, decision.node)
                    if self._lets_in(frees=frees):
                        break
                    return moved
            else:
                closing = list(_above(decision, self.snapshot, target, mask, LOOKED_AT << 2 * number))
            if sum([self.cordon(name) for name in closing]) < len(closing):
                break
        self.back_to(mark)
        return None

    def _goes_there_early(self, pod: PodView, pending: PodView, source: str, target: str) -> bool:
        """True unless the replacement may be created early, and placed on another node while the evicted pod still counts on its own."""
        if not may_be_replaced_early(pod):
            return True
        leaving = pod.with_deletion(MARKED).with_uid(f"{pod.uid}/leaving")
        self.state.assume(leaving, source)
        found = self.decide(pending).node
        self.state.remove_pod(leaving)
        return found in {None, target}  # without a node it waits until the pod is gone

    def keep_waiting(
        self, pods: Iterable[PodView], groups: Mapping[str, tuple[PodView, ...]] | None = None, index: GroupIndex | None = None
    ) -> None:
        """Make no move that gives one of these pods, or members of one of these groups, a place. They have none now.

        One pod for each template is enough. `index` has the groups with their placed members.

        A node that rejects a pod by itself does so until pods leave it, and then it is cordoned. Until one is uncordoned, only the other
        pods are looked at. Members of a group may fit each and not all, so only groups that pods of other nodes keep away are looked at.
        """
        mark = self.mark()
        self._waiting = list(pods)
        self._blocked = [
            pod
            for pod in self._waiting
            if pod.tolerations.tolerate(UNSCHEDULABLE_TAINT) or self.decide(self.claimed(pod)).diagnosis.passing_alone.any()
        ]
        self._waiting_groups = groups or {}
        self._index = index if groups else None
        self._blocked_groups = {
            key: members
            for key, members in self._waiting_groups.items()
            if (index is not None and index.n_placed(key)) or any(map(self._is_kept_away, members))
        }
        self.back_to(mark)

    def _is_kept_away(self, pod: PodView) -> bool:
        """True if moves between other nodes may let a member of a group in."""
        if pod.tolerations.tolerate(UNSCHEDULABLE_TAINT):
            return True
        found = Diagnosis(self._decider.filtering(self.snapshot, self.claimed(pod)), self.snapshot.n_nodes)
        return found.may_pass_once_pods_leave(np.empty(0, np.intp), preempts=True)

    def _lets_in(self, *, frees: bool) -> bool:
        """True if a waiting pod or group has a place now. It would be placed before the replacement of an evicted pod, which may need it.

        `frees`: a node that pods have left was uncordoned.
        """
        mark = self.mark()
        found = any(self.decide(self.claimed(pod)).node is not None for pod in (self._waiting if frees else self._blocked))
        groups = self._waiting_groups if frees else self._blocked_groups
        found = found or any(self._is_placed(key, members) for key, members in groups.items())
        self.back_to(mark)
        return found

    def _is_placed(self, key: str, waiting: tuple[PodView, ...]) -> bool:
        """True if members of a group have a place now."""
        assert self._index is not None  # noqa: S101 — groups wait
        members = tuple(map(self.claimed, waiting))
        if not any(self._decider.filtering(self.snapshot, pod).count for pod in members):
            return False  # most often, and a search would take long
        return bool(at_once(attempt(self._decider, self.state, self._index, key, members)).placed)

    def claimed(self, pending: PodView) -> PodView:
        """The pod with claims made from the templates that it names."""
        return device_claims.with_made_claims(self.state, pending, self._put)

    def _put(self, obj: objects.AnyObject) -> None:
        before = self.state.objects.get(type(obj), obj.metadata.name, obj.metadata.namespace)
        self.state.put(obj)
        undo = partial(self.state.drop, kind_of(obj), key_of(obj)) if before is None else partial(self.state.put, before)
        self._undo.append(undo)

    def _drop(self, obj: objects.AnyObject) -> None:
        self.state.drop(kind_of(obj), key_of(obj))
        self._undo.append(partial(self.state.put, obj))

    def place(self, pending: PodView, target: str, claims: Iterable[ClaimAllocation] = ()) -> None:
        """Place a pod that is on no node, with devices taken for `claims`."""
        device_claims.write_claims(self.state, pending, claims, self._put)
        self.state.assume(self._decider.chain.assigned_on(pending, self.snapshot, target), target)
        self._undo.append(lambda: self.state.remove_pod(pending))
        if self._index is not None and self._index.put(pending.placed_on(target)) is not None:
            self._undo.append(partial(self._index.remove, pending.uid))

    def _placed(self, pod: PodView, pending: PodView, source: str, decision: Decision, target: str) -> Moved:
        self.place(pending, target, decision.claims)
        moved = Moved(pod=pod, source=source, target=target, cordoned=self.cordoned, ties=decision.ties)
        self.moves.append(moved)
        self._undo.append(self.moves.pop)
        return moved

    def explain(self, since: int, why: str, gain: float) -> None:
        """Give the moves from the index `since` on their purpose, and the last of them the gain of all."""
        self.moves[since:] = [with_changes(move, why=why) for move in self.moves[since:]]
        self.moves[-1] = with_changes(self.moves[-1], gain=gain)


def _equal_but_not_acceptable(decision: Decision, snapshot: Snapshot, mask: Mask) -> list[str]:
    """The nodes that are as good as the chosen one, but not acceptable: the new uid of the moved pod may choose one of them."""
    return [name for name in decision.equal_nodes if not mask[snapshot.row(name)]]


def _above(decision: Decision, snapshot: Snapshot, target: str | None, mask: Mask, limit: int) -> Iterator[str]:
    """The best nodes, at most `limit` of them, before the target; without a target those before the first acceptable one."""
    for row in decision.ranked_rows(limit):
        if snapshot.names[row] == target or (target is None and mask[row]):
            return
        yield snapshot.names[row]
