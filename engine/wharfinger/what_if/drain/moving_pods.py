"""The pods that a drain moves: those that leave their nodes, and those that wait for one.

A pod that leaves is marked as deleted first, and still counts on its node. Controllers such as ReplicaSet create its replacement then,
others when it is gone, and that of Jobs later. The replacement is put into the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from wharfinger.framework.chain import Chain
from wharfinger.framework.plugins.victims import has_lower
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.turns import with_priority
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.simulate.dry_run import PodResult, gated_result
from wharfinger.what_if.drain.answer import DrainedPod, DrainOutcome
from wharfinger.what_if.drain.supposed_queue import SupposedQueue
from wharfinger.what_if.leaving_pods import Evictions, Refusal, recreated, replaceable, replaced_after_delay, replaced_early
from wharfinger.what_if.supposed_changes import SupposedChanges

LEAVING = "it is being deleted already"
LOST = "no controller creates it again"


@dataclass(slots=True, eq=False)
class MovingPod:
    """A pod that leaves or waits, and what has become of it so far.

    `source` is its node before, "" for a pod that waited for one already. `replacement` is the pod as it waits for a node, `old` the pod
    itself while it leaves. `order` is that in which pods left or entered the queue. The other fields are those of `DrainedPod`.
    """

    pod: PodView
    source: str
    replacement: PodView = field(init=False)
    old: PodView = field(init=False)
    step: int | None = None
    order: int = 0
    reason: str = ""
    staying: bool = False
    refusal: Refusal | None = None
    placement: PodResult | None = None
    displaced_by: str | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        self.replacement = self.old = self.pod

    @property
    def is_replaced_early(self) -> bool:
        """True if its replacement is created before it is gone."""
        return replaced_early(self.pod) and not self.pod.terminating

    def drained(self) -> DrainedPod:
        """The outcome for it."""
        owner = self.pod.controller
        return DrainedPod(
            pod=self.pod.key,
            source=self.source,
            controller="" if owner is None else f"{owner.kind}/{owner.name}",
            outcome=self._outcome(),
            reason=self._reason(),
            step=self.step,
            placement=self.placement,
            displaced_by=self.displaced_by,
            alone=self.alone,
        )

    def _outcome(self) -> DrainOutcome:
        if self.placement is not None:
            return DrainOutcome.WAITS if self.placement.node is None else DrainOutcome.PLACED
        if self.refusal is not None:
            return DrainOutcome.FORBIDDEN
        if self.staying:
            return DrainOutcome.STAYS
        return DrainOutcome.REFUSED if self.step is None else DrainOutcome.GONE

    def _reason(self) -> str:
        if self.placement is not None:
            return self.placement.message
        return self.reason if self.refusal is None else self.refusal.message


class MovingPods:
    """The pods of a drain by uid, in the order in which they came into question.

    `index` has the groups that they belong to, `queue` those that wait for a node, `evictions` what budgets allow. `steps` is the number of
    the step that is under way.
    """

    def __init__(self, chain: Chain, supposed: SupposedChanges) -> None:
        self._chain = chain
        self._supposed = supposed
        self._state = supposed.state
        self._by_uid: dict[str, MovingPod] = {}
        self._delayed: list[MovingPod] = []  # those whose controllers wait before they create them again
        self._n_ordered = 0
        self.index = GroupIndex(self._state.objects)
        self.evictions = Evictions(self._state.objects)
        self.queue = SupposedQueue(self._state.snapshot, self._sort_key)
        self.steps = 0
        supposed.changed = self.queue.notify

    def __iter__(self) -> Iterator[MovingPod]:
        return iter(self._by_uid.values())

    def __getitem__(self, uid: str) -> MovingPod:
        return self._by_uid[uid]

    def add_leaving(self, pod: PodView, node: str) -> MovingPod:
        """Add a pod of a node that is drained."""
        moving = self._by_uid[pod.uid] = MovingPod(pod, node)
        return moving

    def add_waiting(self, pod: PodView) -> None:
        """Add a pod that waits for a node already."""
        moving = self._by_uid.setdefault(pod.uid, MovingPod(pod, ""))
        moving.order = self._next_order()
        self.enqueue(moving, pod)

    def displaced(self, victim: PodView, displaced_by: str) -> MovingPod:
        """The pod that preemption evicts, counted as lost. If the drain has evicted it before, it keeps the step of that."""
        self.evictions.count_lost(victim)
        self.index.remove(victim.uid)
        moving = self._by_uid.setdefault(victim.uid, MovingPod(victim, victim.node_name))
        moving.refusal = None
        if moving.step is None:
            moving.step, moving.order, moving.displaced_by = self.steps, self._next_order(), displaced_by
        return moving

    def note_eviction(self, moving: MovingPod) -> None:
        """Note that the drain evicts a pod in this step."""
        moving.step, moving.refusal, moving.order = self.steps, None, self._next_order()

    def outcomes(self) -> tuple[DrainedPod, ...]:
        """The outcome of each pod: first those that have left, by step and order, then those that have not, then those from the queue."""
        ordered = sorted(
            enumerate(self._by_uid.values()),
            key=lambda item: (not item[1].source, item[1].step is None, item[1].step or 0, item[1].order, item[0]),
        )
        return tuple(moving.drained() for _, moving in ordered)

    def _next_order(self) -> int:
        self._n_ordered += 1
        return self._n_ordered

    def _sort_key(self, pod: PodView, group: str | None) -> Any:
        """The place of a pod in the queue, or of a group by the pod that represents it, as the chain sorts them."""
        terms = None if group is None else self.index.terms(group)
        return self._chain.sort_key(pod if terms is None else with_priority(pod, terms.priority))

    # ── off their nodes ──

    def mark(self, moving: MovingPod, *, preempted: bool = False) -> None:
        """Mark a pod as deleted, with `preempted` for another pod."""
        moving.old = moving.pod
        if moving.is_replaced_early:
            moving.old = self._supposed.begin_leaving(moving.pod, preempted=preempted)
            self.index.remove(moving.pod.uid)
            self.index.put(moving.old)
        else:
            self._supposed.mark_deleted(moving.pod, preempted=preempted)

    def leave(self, leaving: Sequence[MovingPod], place: Callable[[], Generator[None]], *, in_vain: bool = False) -> Generator[None]:
        """Let pods leave that are marked as deleted, and create them again as their controllers do.

        `place` tries the pods that are ready; it is called after each change, except the last. With `in_vain`, pods that are woken because
        one is gone are not tried until all are, and go behind the others.
        """
        for moving in leaving:
            if moving.is_replaced_early:
                self._create_again(moving)
        yield from place()
        self.queue.in_vain = in_vain
        for moving in leaving:
            self.remove(moving.old)
            yield from place()
            yield
        if in_vain:
            self.end_vain()
            yield from place()
        for moving in leaving:
            if not moving.is_replaced_early:
                self._create_again(moving)

    def end_vain(self) -> None:
        """Let woken pods be tried from now on. Those that were woken in vain are tried too if they may preempt others."""
        snapshot = self._state.snapshot()
        self.queue.end_vain(lambda turn: turn.is_group or may_preempt(turn.pod, snapshot))

    def remove(self, pod: PodView) -> None:
        """Remove a placed pod from its node."""
        self._supposed.leave(pod)
        self.index.remove(pod.uid)

    # ── into the queue ──

    @property
    def has_delayed(self) -> bool:
        """True if there are pods whose controllers wait before they create them again."""
        return bool(self._delayed)

    def create_delayed(self) -> None:
        """Create the pods again whose controllers have waited."""
        delayed, self._delayed = self._delayed, []
        for moving in delayed:
            self.enqueue(moving, self._recreated(moving.pod))

    def enqueue(self, moving: MovingPod, pod: PodView) -> None:
        """Put a pod, or the replacement of one, into the queue, unless it has a scheduling gate."""
        pod = self._supposed.claimed(pod)
        moving.replacement, moving.placement = pod, None
        key = self.index.put(pod)
        gate = self._chain.gate(pod)
        if gate is None:
            self.queue.add(pod, key)
        else:
            moving.placement = gated_result(pod, gate, self._state.snapshot().n_nodes)

    def _create_again(self, moving: MovingPod) -> None:
        """Put the replacement of a pod into the queue, if there is one; or later, if its controller waits."""
        if not replaceable(moving.pod):
            moving.placement, moving.reason = None, LEAVING if moving.pod.terminating else LOST
        elif replaced_after_delay(moving.pod):
            self._delayed.append(moving)
        else:
            self.enqueue(moving, self._recreated(moving.pod))

    def _recreated(self, pod: PodView) -> PodView:
        return recreated(pod, datetime.fromtimestamp(self._state.snapshot().now, UTC))


def may_preempt(pod: PodView, snapshot: Snapshot) -> bool:
    """True if there are pods that may be evicted for a pod, by their priorities."""
    return pod.object.spec.preemption_policy != "Never" and bool(has_lower(pod.priority, snapshot).any())
