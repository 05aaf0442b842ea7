"""Carries out a plan of moves on a running cluster, one move at a time.

Before the first move the whole plan is rehearsed on the present cluster. Before each other move only this move is decided again, as
long as nothing has changed but by the moves; otherwise the whole rest is rehearsed. The plan stops with a reason if a pod that is still to
move has changed its node, is deleted or would find no node, or if the rest would gain less than was planned. A pod may end on another one
of several equally good nodes, because its new uid decides; then what counts is what the rest gains.

Whatever happens, the nodes that were cordoned for the plan are opened again, also when the plan is cancelled. Only a process that is
killed, or cancelled a second time, leaves them cordoned; `undo` of a later one opens them. To mark these nodes, unlike those that an
administrator has cordoned, an annotation is written together with the cordon, with the owner and the time. The nodes of one step are
cordoned at the same time, a limited number at once.

The API server may be away for a while at any time: writes are repeated until there is a response, and the watch shows the changes in the
meantime.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct, structs

from wharfinger.errors import WharfingerError
from wharfinger.event_loop import until
from wharfinger.framework.plugins.taint_toleration import UNSCHEDULABLE_TAINT
from wharfinger.framework.ports import WriteFailed
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.node_view import changed_parts
from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.rebalance.draft import Draft
from wharfinger.what_if.rebalance.movable import Movable
from wharfinger.what_if.rebalance.plan import CONSOLIDATING, Goal, Move, PlanOptions, decided_without_pod, value_of, violation

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.evaluation.decision import Decision
    from wharfinger.framework.ports import Clock
    from wharfinger.model.state.snapshot import Snapshot
    from wharfinger.what_if.rebalance.watched_cluster import Change, WatchedCluster

LOOK_SECONDS = 1.0
"""Seconds after which a wait looks again at the cluster if no watch event has come."""
RETRY_SECONDS = 1.0
TIMEOUT = 300.0
"""Seconds to wait for a write to be accepted, and for a pod to be placed again."""
CONCURRENT_CORDONS = 16
"""Nodes that are cordoned or opened at the same time."""
UNPLACED_SECONDS = 30.0
"""Seconds for which the scheduler may report that the replacement of an evicted pod finds no node, before the plan stops."""
TOLERANCE = 1e-6
CORDONED_BY = "wharfinger.dev/cordoned-by"
ENFORCED = frozenset({"PodDisruptionBudget"})
"""Kinds that no placement depends on: the Eviction API itself keeps to them."""
MAX_NAMED = 5
UNDO = "wharf rebalance --live --undo-cordons"


def left_cordons(snapshot: Snapshot) -> Mapping[str, str]:
    """The author of the cordon, by the names of nodes that a rebalance has cordoned and that were not opened; sorted by name."""
    closed = (snapshot.node(row).object.metadata for row in np.flatnonzero(snapshot.unschedulable).tolist())
    found = {node.name: node.annotations[CORDONED_BY] for node in closed if CORDONED_BY in node.annotations}
    return dict(sorted(found.items()))


def cordon_hint(left: Mapping[str, str]) -> str:
    """A sentence about how to remove remaining cordons."""
    owners = ", ".join(sorted(set(left.values())))
    return (
        f"still cordoned by another rebalance ({owners}): {wording.capped([*left], MAX_NAMED)}; "
        f"if it does not run any more, open them with {UNDO}"
    )


class NodeWrites(Protocol):
    """The writes of a plan that is carried out. Both raise WriteFailed, which has the information whether a retry may succeed."""

    async def evict(self, pod: PodView) -> None:
        """Evicts the pod of this uid by the Eviction API; `gone` if it no longer exists."""

    async def cordon(self, node: str, annotations: Mapping[str, str | None], *, closed: bool) -> None:
        """Cordons the node, or opens it, and sets these annotations (None: removes); `gone` if it no longer exists."""


class CompletedMove(Struct, frozen=True, kw_only=True):
    """A move that was carried out: the replacement of the evicted pod, and its node."""

    move: Move
    pod: str
    node: str


class CarriedOut(Struct, frozen=True, kw_only=True):
    """The steps of a plan that were done; `stopped` is the reason why the rest was not, `closed` are nodes that stay cordoned.

    `evicted` is the number of pods that were evicted: one more than `completed` if the last one has no replacement on a node.
    `cancelled` is True if it stopped because its task was cancelled, which `stopped` then says.
    """

    completed: tuple[CompletedMove, ...]
    left: tuple[Move, ...]
    stopped: str | None
    closed: tuple[str, ...]
    evicted: int = 0
    cancelled: bool = False

    @property
    def changed(self) -> bool:
        """True if a pod was evicted, or a node is left cordoned."""
        return bool(self.evicted or self.closed)


class _Stopped(Exception):
    """The plan cannot continue; the message has the reason."""


class _Refused(_Stopped):
    """The API server has refused a write; trying again would not help."""


class PlanExecution:
    """One plan on one cluster. `report` is called with a sentence for each step, `max_wait` is in seconds.

    `by` is the value of the annotation of a cordoned node. With `exact` the plan is one that was kept: every pod must still be movable, and
    get the node of the plan.
    """

    def __init__(  # noqa: PLR0913 — what it needs of the world
        self,
        chain: Chain,
        plan_options: PlanOptions,
        live: WatchedCluster,
        writes: NodeWrites,
        clock: Clock,
        *,
        by: str = "wharf rebalance",
        exact: bool = False,
        max_wait: float = TIMEOUT,
        report: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._chain = chain
        self._plan_options = plan_options
        self._live = live
        self._writes = writes
        self._clock = clock
        self._by = by
        self._exact = exact
        self._max_wait = max_wait
        self._report = report
        self._ours: set[str] = set()  # the nodes that are cordoned for the plan
        self._completed: list[CompletedMove] = []
        self._ending: dict[str, PodView] = {}  # evicted pods that may still be there
        self._expected: dict[str, str] = {}  # the nodes of the last rehearsal, by the uid of the pod that moves there
        self._replacements: dict[str, tuple[PodView, str]] = {}  # by uid: of which pod, and its expected node
        self._draft = Draft(chain, live.state)  # kept, and with it what it has evaluated
        self._leaving: Move | None = None  # whose pod is being evicted, or has no replacement yet
        self._evictions = 0
        self._last_failure = ""

    async def run(self, moves: Sequence[Move]) -> CarriedOut:
        """Carries out the moves in order.

        Nothing is written if the plan does not hold to begin with, or if another rebalance has left nodes cordoned. If the task is
        cancelled, the nodes are opened and the result is returned as for any other stop; a second time it raises CancelledError.
        """
        left = left_cordons(self._live.state.snapshot())
        stopped = cordon_hint(left) if left else None
        cancelled = False
        if stopped is not None:
            return CarriedOut(completed=(), left=tuple(moves), stopped=stopped, closed=())
        try:
            for place, move in enumerate(moves):
                if place == 0 or not self._is_as_expected(move):
                    stopped = self.reason_to_stop(moves[place:])
                if stopped is not None:
                    break
                await self._step(move)
        except (_Stopped, WharfingerError) as error:
            stopped = str(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            cancelled, stopped = True, self._interrupted()
            if self._ours:
                self._report(f"opening {wording.count(len(self._ours), 'cordoned node')}")
        finally:
            closed = await self._open_all()
        done = len(self._completed)
        return CarriedOut(
            completed=tuple(self._completed),
            left=tuple(moves[done:]),
            stopped=stopped,
            closed=closed,
            evicted=self._evictions,
            cancelled=cancelled,
        )

    def _interrupted(self) -> str:
        """The state in which a plan that is cancelled now leaves the cluster."""
        if self._leaving is None:
            return "no evicted pod is without a replacement"
        was = "was" if self._evictions > len(self._completed) else "may have been"
        return f"pod {self._leaving.pod} {was} evicted, and its replacement is not waited for"

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Opens the nodes that earlier rebalances have left cordoned; (those that are open now, those that could not be opened)."""
        self._ours.update(left_cordons(self._live.state.snapshot()))
        found = sorted(self._ours)
        closed = await self._open_all()
        return tuple(name for name in found if name not in closed), closed

    # ── does the plan still hold? ──

    def reason_to_stop(self, moves: Sequence[Move]) -> str | None:
        """The reason why these moves, in order, are no longer the plan on the present cluster; None if they are."""
        draft = self._draft
        snapshot = draft.snapshot
        self._was_changed()  # what has changed until now is rehearsed
        others = {name: by for name, by in left_cordons(snapshot).items() if by != self._by}
        if others:
            return cordon_hint(others)
        closed = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist()) - self._ours
        if self._exact and not self._completed and (why := self._unmovable(moves, draft)) is not None:
            return why
        try:
            self._evict_ending()
            before = self._totals(moves, draft, closed)
            why = next(
                (why for place, move in enumerate(moves) if (why := self._move_or_reason(draft, move, first=place == 0)) is not None), None
            )
            return why or self._loss(moves, before, self._totals(moves, draft, closed))
        finally:
            draft.back_to(0)

    def _evict_ending(self) -> None:
        """Takes evicted pods that are still there off their nodes, in the draft."""
        for uid, pod in [*self._ending.items()]:
            if uid not in self._live.pods:
                del self._ending[uid]
            elif self._draft.snapshot.placed(uid) is not None:
                self._draft.evict(pod)

    def _is_as_expected(self, move: Move) -> bool:
        """True if nothing has changed since the last rehearsal but by the moves, and this one still goes where it went in that."""
        pod = self._live.pods.get(move.uid)
        if self._was_changed() or pod is None:
            return False
        draft = self._draft
        try:
            self._evict_ending()
            return _changed(draft, move) is None and self._expected.get(move.uid) in self._decided(draft, move, pod).equal_nodes
        finally:
            draft.back_to(0)

    def _was_changed(self) -> bool:
        """True if the cluster has changed since the last call, by anything except the moves."""
        return not all(map(self._is_planned, self._live.changes()))

    def _is_planned(self, change: Change) -> bool:
        """True if a change is one that the moves make, or one that no decision reads."""
        if change.kind == "Node":
            return self._is_own_cordon(change.before, change.now)
        if change.kind == "Pod":
            return self._is_own_move(change.before, change.now)
        return change.kind in ENFORCED or _content(change.before) == _content(change.now)

    def _is_own_cordon(self, before: objects.Node | None, now: objects.Node | None) -> bool:
        """True if a node differs by a cordon of this plan at most, and is cordoned by it exactly if it should be."""
        if before is None or now is None or self._is_cordoned(now) != (now.metadata.name in self._ours):
            return before is now
        closed = [node.spec.unschedulable and not self._is_cordoned(node) for node in (before, now)]  # by others
        return closed[0] == closed[1] and not changed_parts(_opened(before), _opened(now))

    def _is_cordoned(self, node: objects.Node) -> bool:
        return node.spec.unschedulable and node.metadata.annotations.get(CORDONED_BY) == self._by

    def _is_own_move(self, before: objects.Pod | None, now: objects.Pod | None) -> bool:
        """True if a pod is one that the plan has evicted, its replacement on the expected node, or takes room just as it did."""
        then, place = _place(before), _place(now)
        if then == place or (before is not None and PodView(before).uid in self._ending):
            return True
        if then is not None or now is None:
            return False
        arrived = PodView(now)
        evicted, node = self._replacements.get(arrived.uid, (None, ""))
        return evicted is not None and arrived.node_name == node and arrived.demand == evicted.demand

    def _unmovable(self, moves: Sequence[Move], draft: Draft) -> str | None:
        """The reason why a pod of these moves, on its old node, may no longer move; None if all may."""
        rules = Movable(self._chain, draft.snapshot, self._plan_options.limits)
        for move in moves:
            pod = self._live.pods.get(move.uid)
            if pod is not None and not pod.terminating and (why := rules.reason_to_stay(pod)) is not None:
                return f"pod {move.pod} may not move any more: {why}"
        return None

    def _totals(self, moves: Sequence[Move], draft: Draft, closed: frozenset[str]) -> dict[Goal, float]:
        goals = {move.goal for move in moves} & CONSOLIDATING
        return {goal: value_of(goal, self._plan_options, draft.snapshot)[0].total(draft.snapshot, closed) for goal in goals}

    @staticmethod
    def _loss(moves: Sequence[Move], before: dict[Goal, float], after: dict[Goal, float]) -> str | None:
        for goal, value in before.items():
            planned, gained = sum(move.gain for move in moves if move.goal is goal), after[goal] - value
            if gained < planned - TOLERANCE:
                return f"goal {goal.value}: what is left of the plan would gain {gained:g} now, not {planned:g} as planned"
        return None

    def _move_or_reason(self, draft: Draft, move: Move, *, first: bool) -> str | None:
        """The reason why a move is no longer possible on the draft; otherwise the draft is changed by it."""
        changed = _changed(draft, move)
        if changed is not None:
            return changed
        pod = self._live.pods[move.uid]
        if move.goal is Goal.VIOLATIONS and decided_without_pod(draft, pod, violation) is None:
            return f"pod {move.pod} is on a node that no rule rejects any more"
        decision = self._decided(draft, move, pod)
        if decision.node is None:
            return f"pod {move.pod} would find no place: {decision.message}"
        as_planned = move.target in decision.equal_nodes
        if (first or self._exact) and not as_planned and all(done.node == done.move.target for done in self._completed):
            return f"pod {move.pod} would go to {decision.node}, not to {move.target} as planned"
        target = self._expected[move.uid] = move.target if as_planned else decision.node
        draft.place(decision.pod, target, decision.claims_at(target))
        return None

    def _decided(self, draft: Draft, move: Move, pod: PodView) -> Decision:
        """The decision about the pod of a move, made again, once the draft is changed as the cluster is for the move."""
        for name in move.uncordon:
            if name in draft.cordoned:
                draft.uncordon([name])
            elif name in self._ours:
                draft.lift(name)
        for name in move.cordon:
            draft.cordon(name)
        draft.evict(pod)
        return draft.decide(draft.claimed(draft.recreated(pod)))

    # ── one move ──

    async def _step(self, move: Move) -> None:
        await self._at_once(move.uncordon, partial(self._cordon, closed=False))
        await self._at_once(move.cordon, partial(self._cordon, closed=True))
        pod = self._live.pods.get(move.uid)
        if pod is None or pod.terminating:
            raise _Stopped(_gone(move))
        known = frozenset(self._live.siblings(pod))
        self._leaving = move
        self._ending[pod.uid] = pod
        await self._evicted(pod)
        replacement = await self._replacement(pod, known)
        self._replacements[replacement.uid] = pod, self._expected[move.uid]
        self._leaving = None
        self._completed.append(CompletedMove(move=move, pod=replacement.key, node=replacement.node_name))
        elsewhere = "" if replacement.node_name == move.target else f", planned was {move.target}"
        self._report(f"{move.pod}: {move.source} → {replacement.node_name} ({replacement.key}{elsewhere})")

    async def _replacement(self, pod: PodView, known: frozenset[str]) -> PodView:
        """The replacement of an evicted pod, once it has a node; raises _Stopped if there is no node."""
        unplaced_since = math.inf

        def placed() -> PodView | None:
            nonlocal unplaced_since
            siblings = self._live.siblings(pod)
            new = [siblings[uid] for uid in siblings.keys() - known]
            bound = next((other for other in new if other.node_name), None)
            why = "" if bound is not None else next((why for other in new if (why := other.object.status.unschedulable)), "")
            now = self._clock.monotonic()
            unplaced_since = min(unplaced_since, now) if why else math.inf
            if now - unplaced_since > UNPLACED_SECONDS:
                raise _Stopped(f"pod {pod.key} was evicted, and its replacement finds no node: {why}")
            return bound

        found: PodView = await self._awaited(placed, f"pod {pod.key} was evicted, and no replacement has a node")
        return found

    async def _evicted(self, pod: PodView) -> None:
        """Returns when the pod is deleted or terminating."""

        def leaves() -> bool:
            now = self._live.pods.get(pod.uid)
            return now is None or now.terminating

        await self._written(lambda: self._writes.evict(pod), f"evicting {pod.key}", leaves, gone_is_done=True)
        self._evictions += 1
        await self._awaited(lambda: leaves() or None, f"pod {pod.key} was evicted, and is still there")

    async def _cordon(self, name: str, *, closed: bool) -> None:
        if closed and self._is_closed(name):
            return  # by someone else, who will open it
        if not closed and name not in self._ours:
            return
        if closed:
            self._ours.add(name)  # before it is written: an answer may be lost
        try:
            await self._written(partial(self._mark, name, closed=closed), f"{'cordoning' if closed else 'opening'} node {name}")
        except _Refused:
            if closed and not self._is_closed(name):
                self._ours.discard(name)
            raise
        await self._awaited(lambda: self._is_closed(name) == closed or None, f"node {name} is not {'cordoned' if closed else 'open'}")
        if not closed:
            self._ours.discard(name)

    async def _mark(self, name: str, *, closed: bool) -> None:
        await self._writes.cordon(name, {CORDONED_BY: self._by if closed else None}, closed=closed)

    @staticmethod
    async def _at_once(names: Iterable[str], change: Callable[[str], Awaitable[None]]) -> None:
        """Changes all of these nodes, `CONCURRENT_CORDONS` at the same time; raises the first _Stopped when every change has ended."""
        slots = asyncio.Semaphore(CONCURRENT_CORDONS)

        async def one(name: str) -> None:
            async with slots:
                await change(name)

        failures = [found for found in await asyncio.gather(*map(one, names), return_exceptions=True) if found is not None]
        if failures:
            raise failures[0]

    def _is_closed(self, name: str) -> bool:
        snapshot = self._live.state.snapshot()
        row = snapshot.row(name)
        return row is not None and bool(snapshot.unschedulable[row])

    async def _open_all(self) -> tuple[str, ...]:
        """Opens every node that is cordoned for the plan; returns those that could not be opened."""
        closed: list[str] = []

        async def opened(name: str) -> None:
            try:
                await self._written(partial(self._mark, name, closed=False), f"opening node {name}", gone_is_done=True)
                self._ours.discard(name)
            except _Stopped as error:
                self._report(str(error))
                closed.append(name)

        try:
            await self._at_once(sorted(self._ours), opened)
        except asyncio.CancelledError:
            self._report(f"still cordoned: {wording.capped(sorted(self._ours), MAX_NAMED)}; open them with {UNDO}")
            raise
        return tuple(sorted(closed))

    async def _written(
        self, write: Callable[[], Awaitable[None]], what: str, done: Callable[[], bool] = lambda: False, *, gone_is_done: bool = False
    ) -> None:
        """Repeats a write until it is accepted or turns out to be done; raises _Stopped when it is refused or the timeout ends.

        With `gone_is_done` the absence of the object is no refusal: an earlier attempt without an answer may have been carried out.
        """
        until = self._clock.monotonic() + self._max_wait
        while not done():
            try:
                await write()
            except WriteFailed as failed:
                if failed.gone and gone_is_done:
                    return
                if failed.gone or not failed.retriable:
                    raise _Refused(f"{what}: {failed.reason}") from failed
                if self._clock.monotonic() > until:
                    raise _Stopped(f"{what}: {failed.reason}") from failed
                if failed.reason != self._last_failure:
                    self._report(f"{what}: {failed.reason}; trying again for {self._max_wait:g} s")
                    self._last_failure = failed.reason
                await self._clock.sleep(RETRY_SECONDS)
            else:
                self._last_failure = ""
                return

    async def _awaited(self, look: Callable[[], Any], what: str) -> Any:
        """The first result of `look` that is not None; raises _Stopped after the timeout."""
        ends_at = self._clock.monotonic() + self._max_wait
        while (found := look()) is None:
            if self._clock.monotonic() > ends_at:
                raise _Stopped(f"{what} after {self._max_wait:g} s")
            self._live.changed.clear()
            await until(self._live.changed, self._clock, LOOK_SECONDS)
        return found


def _changed(draft: Draft, move: Move) -> str | None:
    """The change of the pod or the nodes of a move since it was planned; None if there is none."""
    placed = draft.snapshot.placed(move.uid)
    if placed is None or placed[1].terminating:
        return _gone(move)
    if placed[1].key != move.pod:
        return f"the pod of uid {move.uid} is {placed[1].key}, not {move.pod} as planned"
    node = draft.snapshot.names[placed[0]]
    if node != move.source:
        return f"pod {move.pod} is on {node}, not on {move.source} as planned"
    return None if draft.snapshot.row(move.target) is not None else f"node {move.target} is gone"


def _gone(move: Move) -> str:
    return f"pod {move.pod} is gone, or being deleted"


def _opened(node: objects.Node) -> objects.Node:
    """The node without a cordon, its taint and its author."""
    annotations = {name: text for name, text in node.metadata.annotations.items() if name != CORDONED_BY}
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    metadata, spec = structs.replace(node.metadata, annotations=annotations), structs.replace(node.spec, unschedulable=False, taints=taints)
    return structs.replace(node, metadata=metadata, spec=spec)


def _place(pod: objects.Pod | None) -> tuple[str, str, bytes] | None:
    """The node that a pod takes or is nominated for, with all that decisions read of it; None if it takes no room."""
    if pod is None:
        return None
    view = PodView(pod)
    return None if view.finished or not (view.node_name or view.nominated_node) else (view.node_name, view.nominated_node, view.template)


def _content(obj: Any) -> Any:
    """The object without the version that every write changes."""
    return None if obj is None else structs.replace(obj, metadata=structs.replace(obj.metadata, resource_version=""))
