"""A drain: where the pods of some nodes would go, in which order, and which of them could not leave.

As `kubectl drain` does, all nodes are cordoned first and then drained in sequence. A pod for which kubectl would refuse the drain stays,
and all others are decided. Evictions go through the Eviction API, so budgets can forbid them.

The pods that may leave a node at the same time are one step. All are marked as deleted. Controllers like ReplicaSet create the replacements
then, and the chain decides about these while the old pods still count on their nodes. The old pods leave, pods that wait are tried again,
and the other controllers create their replacements; that of Jobs is the last, because it waits after the loss of a pod. The order is always
that of the queue. A replacement that has a node counts as healthy, so a budget may allow more evictions in the next step. Members of a
group that left are placed together again, within the domains of those that stayed.

Which pod of a step is gone first is chance. Where a pod that waits may get a place as soon as one of them is gone, that would decide which
pod gets it. So then a step is one eviction. Pods that wait and get no place however many pods leave are no reason for that.

Who gets the last disruption of a budget is chance in a real drain; here it is the first pod in the order of the queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence

import numpy as np
from msgspec import structs

from wharfinger.framework.chain import Chain
from wharfinger.framework.cluster_event import NODE_REMOVED
from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.groups.membership import GroupIndex
from wharfinger.groups.results import GroupResult, GroupState
from wharfinger.groups.turns import groups_in_steps
from wharfinger.language.report.wording import count
from wharfinger.model import objects
from wharfinger.model.objects.node_view import NodeView
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate.dry_run import Utilisation, utilisation
from wharfinger.simulate.placing import queue_order, read_in_steps
from wharfinger.steps import at_once
from wharfinger.what_if.drain.answer import BudgetUse, Drain
from wharfinger.what_if.drain.attempts import Attempts
from wharfinger.what_if.drain.moving_pods import MovingPod, MovingPods, may_preempt
from wharfinger.what_if.leaving_pods import cordoned, recreated, refusals, staying
from wharfinger.what_if.supposed_changes import SupposedChanges

PODS_PER_STEP = 64
"""The pods whose budgets are checked in one step, or about which it is asked whether they may get a place."""


def drain(  # noqa: PLR0913 — the keywords are independent choices
    chain: Chain,
    state: ClusterState,
    nodes: Sequence[str],
    *,
    force: bool = False,
    delete_empty_dir_data: bool = False,
    remove: bool = False,
    waiting: Iterable[PodView] = (),
    advance: Callable[[], None] = lambda: None,
) -> Drain:
    """The drain of these nodes, in this order; `state` is left as it is after it.

    `force` lets pods without a controller leave, `delete_empty_dir_data` pods with an emptyDir. With `remove` the nodes are removed at the
    end, with everything that is still on them. The `waiting` pods are in the queue from the beginning. `advance` is called for every pod
    that is on one of the nodes. Raises UnknownObject for a node that does not exist.
    """
    supposed = SupposedChanges(state)
    attempt = _Drain(Decider(chain), supposed, lambda pod: refusals(pod, force=force, delete_empty_dir_data=delete_empty_dir_data), advance)
    names = attempt.known(nodes)
    before = utilisation(state.snapshot())
    at_once(attempt.run(names, waiting))
    if remove:
        at_once(attempt.remove(names))
    return attempt.finished(names, before, removed=remove)


def drain_steps(  # noqa: PLR0913 — the keywords are independent choices
    decider: Decider,
    supposed: SupposedChanges,
    nodes: Sequence[str],
    *,
    force: bool = False,
    delete_empty_dir_data: bool = False,
    waiting: Iterable[PodView] = (),
) -> Generator[None, None, Drain]:
    """A generator of steps, about one decision each, that returns the same as `drain` without `remove`; `supposed` can undo it."""
    attempt = _Drain(decider, supposed, lambda pod: refusals(pod, force=force, delete_empty_dir_data=delete_empty_dir_data))
    names = attempt.known(nodes)
    before = utilisation(supposed.state.snapshot())
    yield from attempt.run(names, waiting)
    return attempt.finished(names, before, removed=False)


def precompute_drain(decider: Decider, supposed: SupposedChanges, nodes: Sequence[str], waiting: Iterable[PodView] = ()) -> Generator[None]:
    """The steps of reading what the decisions of a drain read of all nodes: devices, volumes and storage. None where it is read already.

    UnknownObject for a node that does not exist.
    """
    yield from read_in_steps(decider, supposed, waiting)
    for node in nodes:
        snapshot = supposed.state.snapshot()
        for pod in tuple(snapshot.pods_on(snapshot.known_row(node))):
            for _ in decider.precompute(supposed.state.snapshot, pod):
                yield


class _Drain:
    """A drain under way."""

    def __init__(
        self, decider: Decider, supposed: SupposedChanges, refused: Callable[[PodView], str], advance: Callable[[], None] = lambda: None
    ) -> None:
        self._chain = decider.chain
        self._supposed = supposed
        self._state = supposed.state
        self._refused = refused
        self._advance = advance
        self._decider = decider
        self._moving = MovingPods(decider.chain, supposed)
        self._attempts = Attempts(decider, supposed, self._moving)
        self._uses: dict[str, tuple[int, int]] = {}

    def known(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The names of the nodes, each once; UnknownObject for one that does not exist."""
        names = tuple(dict.fromkeys(nodes))
        for name in names:
            self._state.snapshot().known_row(name)
        return names

    def run(self, nodes: Sequence[str], waiting: Iterable[PodView]) -> Generator[None]:
        """Cordon the nodes, and empty them in order."""
        waiting = list(waiting)
        snapshot = self._state.snapshot()
        on_nodes = [pod for node in nodes for pod in snapshot.pods_on(snapshot.known_row(node))]
        self._moving.index = yield from groups_in_steps(self._chain, self._state, [*waiting, *on_nodes])
        leaving = []
        for node in nodes:
            leaving.append(self._pods_of(node))
            yield
        for pod in queue_order(self._chain, waiting):
            self._moving.add_waiting(pod)
        yield from self._attempts.find_rejectors()
        for node in nodes:
            self._supposed.replace(cordoned(self._node(node).object))
        yield from self._attempts.place_all()
        left: list[MovingPod] = []
        for on_node in leaving:
            left += yield from self._empty(on_node)
        while left:
            still = yield from self._empty(left)
            if len(still) == len(left):
                break
            left = still

    def finished(self, nodes: tuple[str, ...], before: Utilisation, *, removed: bool) -> Drain:
        """The drain of these nodes as far as it has come."""
        return Drain(
            chain=self._chain,
            nodes=nodes,
            removed=removed,
            pods=self._moving.outcomes(),
            budgets=self.budgets(),
            has_budgets=bool(self._state.objects.all(objects.PodDisruptionBudget)),
            steps=self._moving.steps,
            before=before,
            after=utilisation(self._state.snapshot()),
            groups=tuple(final_result(self._moving.index, key, tried) for key, tried in self._attempts.groups.items()),
        )

    def budgets(self) -> tuple[BudgetUse, ...]:
        """The use of each budget that covers a pod of the nodes, by name."""
        forbidden = [name for moving in self._moving if moving.refusal is not None for name in moving.refusal.budgets]
        return tuple(
            BudgetUse(budget=name, pods=pods, allowed=allowed, forbidden=forbidden.count(name))
            for name, (pods, allowed) in sorted(self._uses.items())
        )

    def _pods_of(self, node: str) -> list[MovingPod]:
        """The pods of a node that are to leave, in the order of the queue; the others are remembered as well."""
        leaving = []
        for pod in queue_order(self._chain, self._node(node).pods):
            moving = self._moving.add_leaving(pod, node)
            reason = staying(pod)
            moving.staying = bool(reason)
            moving.reason = reason or self._refused(pod)
            if not moving.reason:
                leaving.append(moving)
                self._note_budgets(pod)
            else:
                self._advance()
        return leaving

    def _node(self, name: str) -> NodeView:
        snapshot = self._state.snapshot()
        return snapshot.node(snapshot.known_row(name))

    def _note_budgets(self, pod: PodView) -> None:
        for budget in self._moving.evictions.covering(pod):
            name = objects.key_of(budget)
            pods, allowed = self._uses.get(name, (0, self._moving.evictions.allowed(budget)))
            self._uses[name] = pods + 1, allowed

    def _empty(self, leaving: Iterable[MovingPod]) -> Generator[None, None, list[MovingPod]]:
        """Evict the pods in steps, as budgets allow, and place their replacements; returns those that may not leave."""
        left = [moving for moving in leaving if moving.step is None]
        while left:
            one_by_one = len(left) > 1 and (yield from self._may_let_in(left))
            allowed = yield from self._allowed_now(left, one_by_one=one_by_one)
            if not allowed:
                break
            self._moving.steps += 1
            yield from self._evict(allowed, alone=one_by_one or len(left) == 1)
            yield from self._attempts.place_all()
            left = [moving for moving in left if moving.step is None]
        return left

    def _evict(self, leaving: Sequence[MovingPod], *, alone: bool) -> Generator[None]:
        """Let pods leave. They are marked as deleted first, and gone later: both may wake pods that wait.

        Only if one pod leaves alone may they get a place. Otherwise they are put behind those that were not woken, and tried at the end if
        they may preempt others. A replacement that is created early is tried before any of the pods is gone.
        """
        self._moving.queue.in_vain = not alone
        for moving in leaving:
            self._moving.note_eviction(moving)
            self._moving.mark(moving)
            self._advance()
            yield from self._attempts.place_woken()
        if not alone:
            self._moving.end_vain()
            yield from self._attempts.place_woken()
        yield from self._moving.leave(leaving, self._attempts.place_woken, in_vain=not alone)

    def _allowed_now(self, left: Iterable[MovingPod], *, one_by_one: bool) -> Generator[None, None, list[MovingPod]]:
        """The pods whose eviction is allowed now, each counted; with `one_by_one` the first of them, `alone` if there are others."""
        allowed: list[MovingPod] = []
        for number, moving in enumerate(left):
            moving.refusal = self._moving.evictions.refusal(moving.pod)
            if moving.refusal is None and one_by_one and allowed:
                allowed[0].alone = True
                break
            if moving.refusal is None:
                self._moving.evictions.evict(moving.pod)
                allowed.append(moving)
            if number % PODS_PER_STEP == PODS_PER_STEP - 1:
                yield
        return allowed

    def _may_let_in(self, left: Sequence[MovingPod]) -> Generator[None, None, bool]:
        """True if a pod that waits may get a place when some of the pods of `left` are gone.

        A replacement that is created before that waits too if it has no place as long as they are there.
        """
        leaving = frozenset(moving.pod.uid for moving in left)
        rows = np.array([self._state.snapshot().known_row(name) for name in {moving.source for moving in left}], np.intp)
        early = [recreated(moving.pod).with_uid(f"{moving.pod.uid}/again") for moving in left if moving.is_replaced_early]
        asked: set[Hashable] = set()
        n_waiting = len(self._moving.queue)
        for number, pod in enumerate(itertools.chain(self._moving.queue, early)):
            group, snapshot, is_early = self._moving.index.key_of(pod.uid), self._state.snapshot(), number >= n_waiting
            alike = group, self._chain.key(pod, snapshot), is_early
            if alike in asked:
                continue
            asked.add(alike)
            filtering = self._decider.filtering(snapshot, pod)
            if is_early and filtering.count:
                continue
            found = Diagnosis(filtering, snapshot.n_nodes)
            if group is None:
                may_come = found.may_pass_once_pods_leave(rows, preempts=may_preempt(pod, snapshot))
            else:  # each member may fit alone, so the pods of a node are no reason here either
                members = {member.uid for member in self._moving.index.members(group)}
                may_come = not members.isdisjoint(leaving) or found.may_pass_once_pods_leave(rows, preempts=True)
            if may_come:
                return True
            if number % PODS_PER_STEP == PODS_PER_STEP - 1:
                yield
        return False

    def remove(self, nodes: Sequence[str]) -> Generator[None]:
        """Remove the nodes, and place the replacements that were placed there because they tolerate a cordon. It cannot be undone."""
        for moving in self._moving:
            if moving.placement is not None and moving.placement.node in nodes:
                self._moving.remove(moving.replacement)
                self._moving.enqueue(moving, moving.replacement)
        for node in nodes:
            self._state.remove_node(node)
            self._moving.queue.notify(NODE_REMOVED)
        yield from self._attempts.place_all()


def final_result(index: GroupIndex, key: str, tried: GroupResult) -> GroupResult:
    """The final result of a group: later steps may have placed or evicted some of its members."""
    members, placed = index.members(key), index.n_placed(key)
    if placed == len(members):
        return structs.replace(tried, members=len(members), placed=placed, state=GroupState.PLACED, message="", nearest=())
    missing = placed < tried.min_count
    said = f"{placed} of {count(len(members), 'member')} {'have' if placed != 1 else 'has'} a node"
    said += f", and it needs {tried.min_count}" if missing else ""
    message = f"{said}: {tried.message}" if tried.message else said
    state = tried.state if not tried.is_placed else GroupState.IN_PART
    return structs.replace(tried, members=len(members), placed=placed, state=state, message=message)
