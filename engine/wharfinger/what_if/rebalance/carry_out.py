"""Carries out a plan of moves on a running cluster, one move at a time.

Before the first move the whole plan is rehearsed on the cluster as it is now, and before each other move the next hundred. The plan stops
with a reason if a pod that is still to move has changed its node, is deleted or would find no node, or if the rest would gain less than was
planned. A pod may end on another one of several equally good nodes, because its new uid decides; then what counts is what the rest gains.

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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wharfinger.errors import WharfingerError
from wharfinger.framework.ports import WriteFailed
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.rebalance.draft import Draft
from wharfinger.what_if.rebalance.movable import Movable
from wharfinger.what_if.rebalance.plan import CONSOLIDATING, Goal, Move, PlanOptions, decided_without_pod, value_of, violation

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.framework.ports import Clock
    from wharfinger.model.state.snapshot import Snapshot

POLL_SECONDS = 0.1
RETRY_SECONDS = 1.0
TIMEOUT = 300.0
"""Seconds to wait for a write to be accepted, and for a pod to be placed again."""
MOVES_REHEARSED = 100
"""Moves that are rehearsed before each move; before the first one it is the whole plan."""
CONCURRENT_CORDONS = 16
"""Nodes that are cordoned or opened at the same time."""
UNPLACED_SECONDS = 30.0
"""Seconds for which the scheduler may report that the replacement of an evicted pod finds no node, before the plan stops."""
TOLERANCE = 1e-6
CORDONED_BY = "wharfinger.dev/cordoned-by"
MAX_NAMED = 5
UNDO = "wharf rebalance --live --undo-cordons"


def left_cordons(snapshot: Snapshot) -> Mapping[str, str]:
    """The author of the cordon, by the names of nodes that a rebalance has cordoned and that were not opened; sorted by name."""
    closed = (snapshot.node(row).object.metadata for row in np.flatnonzero(snapshot.unschedulable).tolist())
    found = {node.name: node.annotations[CORDONED_BY] for node in closed if CORDONED_BY in node.annotations}
    return dict(sorted(found.items()))


def cordon_hint(left: Mapping[str, str]) -> str:
    """A sentence that says how to remove remaining cordons."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A move that was carried out: the replacement of the evicted pod, and its node."""

    move: Move
    pod: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """The steps of a plan that were done; `stopped` is the reason why the rest was not, `closed` are nodes that stay cordoned.

    `evicted` is the number of pods that were evicted: one more than there are landings if the last one has no replacement on a node.
    `cancelled` is True if it stopped because its task was cancelled, which `stopped` then says.
    """

    landings: tuple[Landing, ...]
    left: tuple[Move, ...]
    stopped: str | None
    closed: tuple[str, ...]
    evicted: int = 0
    cancelled: bool = False

    @property
    def changed(self) -> bool:
        """True if a pod was evicted, or a node is left cordoned."""
        return bool(self.evicted or self.closed)


class WatchedCluster:
    """The cluster as it is watched: a ClusterSink that keeps a state, and the pods by uid, those without a node too."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.pods: dict[str, PodView] = {}
        self._keys: dict[str, set[str]] = {}

    def upsert(self, kind: str, obj: Any) -> None:
        """Takes over an object that was added or changed."""
        self._keys.setdefault(kind, set()).add(_identity(obj))
        if isinstance(obj, objects.Pod):
            view = PodView(obj)
            self.pods[view.uid] = view
        self.state.put(obj)

    def delete(self, kind: str, obj: Any) -> None:
        """Removes an object."""
        self._drop(kind, _identity(obj))

    def replace(self, kind: str, objs: Sequence[Any]) -> None:
        """Makes these objects all that there are of a kind."""
        for gone in self._keys.get(kind, set()) - {_identity(obj) for obj in objs}:
            self._drop(kind, gone)
        for obj in objs:
            self.upsert(kind, obj)

    def synced(self, kind: str) -> None:
        """Does nothing: callers that wait for the lists ask the source."""

    def _drop(self, kind: str, identity: str) -> None:
        self._keys.get(kind, set()).discard(identity)
        if kind == "Pod":
            pod = self.pods.pop(identity, None)
            if pod is not None:
                self.state.remove_pod(pod)
        elif kind == "Node":
            self.state.remove_node(identity)
        else:
            self.state.drop(kind, identity)


def _identity(obj: Any) -> str:
    """The uid of a pod, of other objects their key."""
    return PodView(obj).uid if isinstance(obj, objects.Pod) else objects.key_of(obj)


class _Stopped(Exception):
    """The plan cannot continue; the message has the reason."""


class _Refused(_Stopped):
    """The API server has refused a write for good."""


class PlanExecution:
    """One plan on one cluster. `report` is called with a sentence for each step, `patience` is in seconds.

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
        patience: float = TIMEOUT,
        report: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._chain = chain
        self._plan_options = plan_options
        self._live = live
        self._writes = writes
        self._clock = clock
        self._by = by
        self._exact = exact
        self._patience = patience
        self._report = report
        self._ours: set[str] = set()  # the nodes that are cordoned for the plan
        self._landings: list[Landing] = []
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
            return CarriedOut(landings=(), left=tuple(moves), stopped=stopped, closed=())
        try:
            for place, move in enumerate(moves):
                stopped = self.objection(moves[place:] if place == 0 else moves[place : place + MOVES_REHEARSED])
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
        done = len(self._landings)
        return CarriedOut(
            landings=tuple(self._landings),
            left=tuple(moves[done:]),
            stopped=stopped,
            closed=closed,
            evicted=self._evictions,
            cancelled=cancelled,
        )

    def _interrupted(self) -> str:
        """What a plan that is cancelled now leaves to others."""
        if self._leaving is None:
            return "no evicted pod is without a replacement"
        was = "was" if self._evictions > len(self._landings) else "may have been"
        return f"pod {self._leaving.pod} {was} evicted, and its replacement is not waited for"

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Opens the nodes that earlier rebalances have left cordoned; (those that are open now, those that could not be opened)."""
        self._ours.update(left_cordons(self._live.state.snapshot()))
        found = sorted(self._ours)
        closed = await self._open_all()
        return tuple(name for name in found if name not in closed), closed

    # ── does the plan still hold? ──

    def objection(self, moves: Sequence[Move]) -> str | None:
        """Why these moves, in order, are no longer what was planned on the cluster as it is now; None if they are."""
        draft = self._draft
        snapshot = draft.snapshot
        closed = frozenset(snapshot.names[row] for row in np.flatnonzero(snapshot.unschedulable).tolist()) - self._ours
        if self._exact and not self._landings and (why := self._unmovable(moves, draft)) is not None:
            return why
        try:
            for landing in self._landings:
                if draft.snapshot.placed(landing.move.uid) is not None:  # still ending
                    draft.evict(self._live.pods[landing.move.uid])
            before = self._totals(moves, draft, closed)
            why = next(
                (why for place, move in enumerate(moves) if (why := self._move_or_reason(draft, move, first=place == 0)) is not None), None
            )
            return why or self._loss(moves, before, self._totals(moves, draft, closed))
        finally:
            draft.back_to(0)

    def _unmovable(self, moves: Sequence[Move], draft: Draft) -> str | None:
        """Why a pod of these moves, if it is where it was, may not move any more; None if all may."""
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
        """Why a move is not possible on the draft any more; otherwise the draft is changed by it."""
        changed = _changed(draft, move)
        if changed is not None:
            return changed
        pod = self._live.pods[move.uid]
        if move.goal is Goal.VIOLATIONS and decided_without_pod(draft, pod, violation) is None:
            return f"pod {move.pod} is on a node that no rule rejects any more"
        for name in move.uncordon:
            if name in draft.cordoned:
                draft.uncordon([name])
            elif name in self._ours:
                draft.lift(name)
        for name in move.cordon:
            draft.cordon(name)
        draft.evict(pod)
        again = draft.claimed(draft.recreated(pod))
        decision = draft.decide(again)
        if decision.node is None:
            return f"pod {move.pod} would find no place: {decision.message}"
        as_planned = move.target in {ranked.node for ranked in decision.ranking(decision.ties)}
        if (first or self._exact) and not as_planned and all(landing.node == landing.move.target for landing in self._landings):
            return f"pod {move.pod} would go to {decision.node}, not to {move.target} as planned"
        target = move.target if as_planned else decision.node
        draft.place(again, target, decision.claims_at(target))
        return None

    # ── one move ──

    async def _step(self, move: Move) -> None:
        await self._at_once(move.uncordon, partial(self._cordon, closed=False))
        await self._at_once(move.cordon, partial(self._cordon, closed=True))
        pod = self._live.pods.get(move.uid)
        if pod is None or pod.terminating:
            raise _Stopped(_gone(move))
        known = {other.uid for other in self._siblings(pod)}
        self._leaving = move
        await self._evicted(pod)
        replacement = await self._replacement(pod, known)
        self._leaving = None
        self._landings.append(Landing(move=move, pod=replacement.key, node=replacement.node_name))
        elsewhere = "" if replacement.node_name == move.target else f", planned was {move.target}"
        self._report(f"{move.pod}: {move.source} → {replacement.node_name} ({replacement.key}{elsewhere})")

    async def _replacement(self, pod: PodView, known: set[str]) -> PodView:
        """The replacement of an evicted pod, once it has a node; raises _Stopped if there is no node."""
        unplaced_since = math.inf

        def placed() -> PodView | None:
            nonlocal unplaced_since
            new = [other for other in self._siblings(pod) if other.uid not in known]
            bound = next((other for other in new if other.node_name), None)
            why = "" if bound is not None else next((why for other in new if (why := other.object.status.unschedulable)), "")
            now = self._clock.monotonic()
            unplaced_since = min(unplaced_since, now) if why else math.inf
            if now - unplaced_since > UNPLACED_SECONDS:
                raise _Stopped(f"pod {pod.key} was evicted, and its replacement finds no node: {why}")
            return bound

        found: PodView = await self._awaited(placed, f"pod {pod.key} was evicted, and no replacement has a node")
        return found

    def _siblings(self, pod: PodView) -> list[PodView]:
        """The pods of the same controller."""
        owner = pod.controller
        if owner is None:
            return []
        return [other for other in self._live.pods.values() if other.namespace == pod.namespace and _same(other.controller, owner)]

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
        """Repeats a write until it is accepted or turns out to be done; raises _Stopped when it is refused or patience ends.

        With `gone_is_done` the absence of the object is no refusal: an earlier attempt without an answer may have been carried out.
        """
        until = self._clock.monotonic() + self._patience
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
                    self._report(f"{what}: {failed.reason}; trying again for {self._patience:g} s")
                    self._last_failure = failed.reason
                await self._clock.sleep(RETRY_SECONDS)
            else:
                self._last_failure = ""
                return

    async def _awaited(self, look: Callable[[], Any], what: str) -> Any:
        """The first result of `look` that is not None; raises _Stopped after the timeout."""
        until = self._clock.monotonic() + self._patience
        while (found := look()) is None:
            if self._clock.monotonic() > until:
                raise _Stopped(f"{what} after {self._patience:g} s")
            await self._clock.sleep(POLL_SECONDS)
        return found


def _changed(draft: Draft, move: Move) -> str | None:
    """Why the pod or the nodes of a move are not what they were when it was planned; None if they are."""
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


def _same(owner: objects.OwnerReference | None, other: objects.OwnerReference) -> bool:
    return owner is not None and (owner.kind, owner.name, owner.uid) == (other.kind, other.name, other.uid)
